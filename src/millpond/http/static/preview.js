// What a replay would change, document by document: each field before and after.

import { html } from "./dom.js";
import { counted, whole } from "./format.js";
import { toDocument } from "./routes.js";
import { resultTable, summaryOf } from "./results.js";
import { scrollBox, tableHead } from "./table.js";
import { cut, mono, said, visible } from "./text.js";

const FIELDS_MAX = 60;
const VALUE_CHARS = 160;

export function changes({ letters, changes: documents }, left) {
  const changed = documents
    .map(({ doc, before, after }) => ({ doc, isNew: before === null, fields: differences(before ?? {}, after ?? {}) }))
    .filter(({ fields }) => fields.length);
  const count = changed.length ? counted(changed.length, "document") : "No document";
  return [
    left > 0 && html("p.notice", `These are the first ${whole(letters.length)}; `,
      `${counted(left, "letter")} more are selected. One look covers 100.`),
    html("p", `${count} would change. Nothing has been written.`),
    summaryOf(letters),
    changed.map(({ doc, isNew, fields }) => html("details.difference", { open: changed.length <= 5, "data-key": doc },
      html("summary", mono(doc, 100), html("span.note", isNew ? " new document" : ` ${counted(fields.length, "field")}`)),
      !isNew && html("p", html("a", { href: toDocument(doc) }, "as it is now")),
      scrollBox("Differences", html("table.diff", tableHead(["field", "before", "after"]),
        html("tbody", fields.slice(0, FIELDS_MAX).map(fieldRow)))),
      fields.length > FIELDS_MAX && html("p.note", `and ${fields.length - FIELDS_MAX} more fields`))),
    html("details", html("summary", "Each letter"), resultTable(letters)),
  ];
}

function fieldRow({ path, before, after }) {
  return html("tr", html("th", { scope: "row" }, html("span.name", cut(visible(path), 100))),
    html("td.before", before === undefined ? html("span.note", "not there") : html("del", said(before, VALUE_CHARS))),
    html("td.after", after === undefined ? html("span.note", "not there") : html("ins", said(after, VALUE_CHARS))));
}

/** Every leaf in which two documents differ, by its path. */
function differences(before, after) {
  const [a, b] = [new Map(leaves(before)), new Map(leaves(after))];
  const paths = [...new Set([...a.keys(), ...b.keys()])];
  return paths.filter((path) => a.get(path) !== b.get(path)).map((path) => ({ path, before: a.get(path), after: b.get(path) }));
}

function* leaves(value, path = null) {
  const inside = value !== null && typeof value === "object" ? Object.entries(value) : [];
  // A document that is not there is compared as an empty one, which has no fields.
  if (!inside.length && path !== null) yield [path, typeof value === "string" ? value : JSON.stringify(value)];
  for (const [name, item] of inside) yield* leaves(item, path === null ? name : `${path}.${name}`);
}
