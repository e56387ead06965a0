// What a replay led to: a sum by outcome, and a table of each letter, a page of it at a time.

import { html } from "./dom.js";
import { whole } from "./format.js";
import { chip, OUTCOMES } from "./marks.js";
import { documentLinks, scrollBox, tableHead } from "./table.js";
import { mono, said } from "./text.js";

const SHOWN_MAX = 100;
// What needs a person comes first.
const ORDER = ["poison", "retry", "not_found", ...OUTCOMES.filter((name) => name !== "poison" && name !== "retry")];

export function summaryOf(results) {
  const counts = countsOf(results);
  const unchanged = results.every(({ outcome }) => ["duplicate", "stale_ignored", "too_old_ignored", "filtered"].includes(outcome));
  return html("div.counts", { role: "group", "aria-label": "Replayed, by outcome" },
    counts.map(([name, n]) => html("span", { "data-key": name }, chip(name), " ", html("b", whole(n)))),
    unchanged && html("p.unchanged", "Nothing changed: everything was there already, or something newer was."),
    results.every(({ outcome }) => outcome === "poison")
      && html("p.unchanged", "Nothing changed: the cause is still there. Mend it first."));
}

export function resultTable(results) {
  const rank = ({ outcome }) => (ORDER.includes(outcome) ? ORDER.indexOf(outcome) : -1);
  const sorted = [...results].sort((a, b) => rank(a) - rank(b));
  const rows = sorted.slice(0, SHOWN_MAX).map((result) => html("tr", { "data-key": result.id },
    html("th", { scope: "row" }, mono(result.id, 60)),
    html("td", chip(result.outcome)),
    html("td", said(result.reason ?? "", 60), result.error && html("span.error", said(result.error, 200))),
    html("td", documentLinks(result.views, 60))));
  const left = results.length - rows.length;
  return [
    html("div.low", scrollBox("Result of each letter",
      html("table.results", tableHead(["letter", "outcome", "reason", "documents"]), html("tbody", rows)))),
    left > 0 && html("p.note", `and ${whole(left)} more, with what needs a person shown first.`),
  ];
}

function countsOf(results) {
  const counts = new Map();
  for (const { outcome } of results) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
}
