// What the general board shows of documents: which fields become columns, how a value looks, and how rows are sorted.

import { html } from "./dom.js";
import { age } from "./format.js";
import { said } from "./text.js";

export const COLUMNS_MAX = 8;
/** What the first and the last column are sorted by; a field is sorted by its path with a dot before it. */
export const ID = "id";
export const PUBLISHED = "published";
const NEWEST = 50;
const PATHS_MAX = 100;
const CELL_CHARS = 60;
// Of Millpond itself, or the whole payload again.
const SKIPPED = new Set(["source", "data", "ingestedAt", "expireAt", "stamps"]);
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

export function publishedAt({ data }) {
  return data.source && typeof data.source === "object" ? data.source.publishedAt : undefined;
}

export function isDeleted({ data }) {
  return data.deleted === true;
}

/** The dotted paths of the fields of the newest documents, in their order there. */
export function pathsOf(docs) {
  const newest = docs.filter((doc) => !isDeleted(doc))
    .sort((a, b) => compareText(String(publishedAt(b) ?? ""), String(publishedAt(a) ?? ""))).slice(0, NEWEST);
  const found = new Set();
  for (const { data } of newest) {
    for (const [name, value] of Object.entries(data)) if (!SKIPPED.has(name)) addPaths(found, name, value);
  }
  return [...found];
}

function addPaths(found, path, value) {
  if (found.size >= PATHS_MAX) return;
  if (!isMap(value)) found.add(path);
  else for (const [name, inner] of Object.entries(value)) addPaths(found, `${path}.${name}`, inner);
}

function isMap(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;
}

/** The value at a dotted path; undefined if there is none. A field's own name may contain dots. */
export function valueAt(value, path) {
  if (Object.hasOwn(value, path)) return value[path];
  for (let dot = path.indexOf("."); dot >= 0; dot = path.indexOf(".", dot + 1)) {
    const inner = Object.hasOwn(value, path.slice(0, dot)) ? value[path.slice(0, dot)] : null;
    if (!isMap(inner)) continue;
    const found = valueAt(inner, path.slice(dot + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

export function cellOf(value) {
  if (value === undefined) return html("span.note", "–");
  if (value === null) return html("span.note", "null");
  if (typeof value === "object") return said(JSON.stringify(value), CELL_CHARS);
  if (typeof value === "string" && TIME.test(value)) return age(value);
  return value === "" ? html("span.note", "empty") : said(String(value), CELL_CHARS);
}

/** Sorted by a column, `-` before its key if the other way round. Documents without a value come last. */
export function sorted(docs, sort) {
  if (!sort) return docs;
  const isDown = sort.startsWith("-");
  const key = isDown ? sort.slice(1) : sort;
  return docs.map((doc) => [keyOf(doc, key) ?? null, doc]).sort(([a, one], [b, other]) => {
    if (a === null || b === null) return (a === null) - (b === null) || compareText(one.id, other.id);
    return (isDown ? -1 : 1) * compare(a, b) || compareText(one.id, other.id);
  }).map(([, doc]) => doc);
}

function keyOf(doc, key) {
  if (key === ID) return doc.id;
  if (key === PUBLISHED) return publishedAt(doc);
  return isDeleted(doc) ? undefined : valueAt(doc.data, key.slice(1));
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return compareText(typeof a, typeof b);
  return typeof a === "object" ? compareText(JSON.stringify(a), JSON.stringify(b)) : compareText(String(a), String(b));
}

function compareText(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
