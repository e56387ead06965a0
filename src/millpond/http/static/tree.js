// A value of any shape as a tree: every field, times with their age, long texts cut until asked for.

import { html } from "./dom.js";
import { age, moment } from "./format.js";
import { block, said, visible } from "./text.js";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const LINE_MAX = 200;
const OPEN_DEPTH = 2;
const ITEMS_MAX = 500;

export function tree(value, depth = 0) {
  if (Array.isArray(value)) return branches(value.map((item, n) => [`${n}`, item]), depth);
  if (value !== null && typeof value === "object") return branches(Object.entries(value), depth);
  return leaf(value);
}

function branches(entries, depth) {
  if (!entries.length) return html("span.note", "empty");
  const items = entries.slice(0, ITEMS_MAX).map(([name, value]) => branch(name, value, depth));
  const left = entries.length - items.length;
  return html("ul.tree", items, left > 0 && html("li.note", `and ${left} more`));
}

function branch(name, value, depth) {
  const label = html("span.name", visible(name).slice(0, LINE_MAX));
  if (value === null || typeof value !== "object" || !Object.keys(value).length) {
    return html("li", { "data-key": name }, label, " ", tree(value, depth));
  }
  const n = Object.keys(value).length;
  const kind = Array.isArray(value) ? `list of ${n}` : `${n} ${n === 1 ? "field" : "fields"}`;
  return html("li", { "data-key": name },
    html("details", { open: depth < OPEN_DEPTH }, html("summary", label, " ", html("span.note", kind)), tree(value, depth + 1)));
}

function leaf(value) {
  if (typeof value === "string") {
    if (TIME.test(value)) return html("span.value.time", moment(value), html("span.note", " UTC, ", age(value)));
    if (value.length > LINE_MAX || value.includes("\n")) return block(value);
    return value === "" ? html("span.note", "empty text") : html("span.value.text", said(value, LINE_MAX));
  }
  return html("span.value", { class: value === null ? "null" : typeof value }, String(value));
}
