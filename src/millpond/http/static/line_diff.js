// The difference of two texts, line by line.

import { html } from "./dom.js";
import { counted } from "./format.js";
import { cut, visible } from "./text.js";

const CONTEXT = 3;
const LINE_CHARS = 400;
const SHOWN_MAX = 400;
// Two texts that differ in more lines than this, times this, are shown as one replaced by the other.
const CELLS_MAX = 1_000_000;

/** The lines of both texts in order, as [sign, line]: "=" in both, "-" only before, "+" only after. */
export function lineDiff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const same = (lines) => lines.map((line) => ["=", line]);
  const middle = changed(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...same(a.slice(0, start)), ...middle, ...same(end ? a.slice(-end) : [])];
}

/** The longest common subsequence, so that as few lines as possible are marked. */
function changed(a, b) {
  if (a.length * b.length > CELLS_MAX) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const here = i * width + j;
      longest[here] = a[i] === b[j] ? longest[here + width + 1] + 1 : Math.max(longest[here + width], longest[here + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const here = i * width + j;
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(["=", a[i]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[here + width] >= longest[here + 1])) {
      found.push(["-", a[i]]);
      i += 1;
    } else {
      found.push(["+", b[j]]);
      j += 1;
    }
  }
  return found;
}

const TAGS = { "-": "del", "+": "ins" };

/** The changed lines with a few around them; a sentence if nothing changed. */
export function difference(before, after) {
  const lines = lineDiff(before, after);
  const near = lines.map(([sign], n) => lines.slice(Math.max(0, n - CONTEXT), n + CONTEXT + 1).some(([other]) => other !== "=") || sign !== "=");
  const shown = [];
  for (const [n, [sign, line]] of lines.entries()) {
    if (near[n]) shown.push(html(TAGS[sign] ?? "span", visible(cut(line, LINE_CHARS)) || " "));
    else if (n > 0 && near[n - 1]) shown.push(html("span.note", "…"));
  }
  if (!shown.length) return html("p.note", "Nothing is changed.");
  const left = shown.length - SHOWN_MAX;
  return [
    html("pre.block.lines", { tabindex: 0, "aria-label": "Difference" }, shown.slice(0, SHOWN_MAX)),
    left > 0 && html("p.note", `and ${counted(left, "line")} more`),
  ];
}
