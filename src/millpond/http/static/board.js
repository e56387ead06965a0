// The board of any view: its documents as a table that can be sorted, filtered and exported. All choices are in the address.

import { docsPath, getJson, query } from "./api.js";
import { cellOf, COLUMNS_MAX, ID, isDeleted, pathsOf, PUBLISHED, publishedAt, sorted, valueAt } from "./columns.js";
import { html, render } from "./dom.js";
import { exportButtons } from "./export.js";
import { age, counted, whole } from "./format.js";
import { inCollections, keepFresh, live } from "./live.js";
import { pager } from "./pager.js";
import { to, toDocument } from "./routes.js";
import { scrollBox } from "./table.js";
import { mono, said, visible } from "./text.js";
import { timeFields } from "./time_range.js";
import { staleNotice } from "./trouble.js";

const PAGE = 200;
const NAME_MAX = 40;
const TYPING_PAUSE_MS = 400;
const FILTERS = ["since", "until", "field", "text"];

export async function show(page, body, view) {
  page.title(visible(view.name));
  const board = new Board(page, body, view);
  await board.start();
  return (route) => board.reroute(route);
}

class Board {
  #page;
  #view;
  #query;
  #found = { docs: [], next: null };
  #isOwnChoice = false;
  #typing = null;
  #hasTyped = false;
  #parts = { filters: html("div.filters", { role: "group", "aria-label": "Filters" }), notices: html("div"), table: html("div") };
  #field = html("select", { id: "filter-field" });
  #text = html("input", { id: "filter-text", type: "search", autocomplete: "off", spellcheck: "false", maxlength: 300 });

  constructor(page, body, view) {
    this.#page = page;
    this.#view = view;
    this.#query = page.route.query;
    const { filters, notices, table } = this.#parts;
    const exports = exportButtons(view.collection, () => this.#typedFilter(), notices, page.signal);
    body.append(html("section.sheet", view.nested && nestedNote(), filters, exports, notices, table));
  }

  async start() {
    const { signal } = this.#page;
    const { notices, table } = this.#parts;
    const chosen = () => this.#chooseText();
    this.#text.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#chooseText({ isTyping: true }), TYPING_PAUSE_MS);
    });
    this.#text.addEventListener("change", chosen);
    signal.addEventListener("abort", () => clearTimeout(this.#typing));
    this.#field.addEventListener("change", () => (this.#text.value ? chosen() : this.#text.focus()));
    table.addEventListener("click", (event) => this.#sort(event.target.closest?.("button[data-sort]")?.dataset.sort));
    this.#drawFilters();
    live.addEventListener("totals", () => this.#draw(), { signal });
    keepFresh({
      signal, load: () => this.#load(),
      touches: inCollections(this.#view.collection),
      onError: (error) => render(notices, staleNotice(error)),
    });
    await this.#load();
  }

  /** Another choice of the same board keeps what is shown, and the focus. */
  reroute({ parts: [tab, name], query: asked }) {
    if (tab !== "view" || name !== this.#view.name) return false;
    const before = this.#query;
    this.#query = asked;
    // What the reader chose here stands there already, perhaps half edited.
    if (!this.#isOwnChoice && FILTERS.some((filter) => before[filter] !== asked[filter])) this.#drawFilters();
    this.#isOwnChoice = false;
    if ([...FILTERS, "after"].every((filter) => before[filter] === asked[filter])) this.#draw();
    else this.#load().catch((error) => this.#page.fail(error));
    return true;
  }

  #filter() {
    const { since, until, field, text } = this.#query;
    return { since, until, where: field && text !== undefined ? `${field}=${text}` : null };
  }

  /** What the fields say now, though the pause after typing may not be over. */
  #typedFilter() {
    const [field, text] = [this.#field.value, this.#text.value];
    if (text === (this.#query.text ?? "") && field === (this.#query.field ?? field)) return this.#filter();
    return { ...this.#filter(), where: field && text ? `${field}=${text}` : null };
  }

  async #load() {
    const asked = this.#query;
    const path = docsPath(this.#view.collection) + query({ limit: PAGE, after: asked.after, ...this.#filter() });
    const found = await getJson(path, this.#page.signal);
    if (asked.after !== this.#query.after || FILTERS.some((name) => asked[name] !== this.#query[name])) return;
    this.#found = found;
    render(this.#parts.notices);
    this.#draw();
  }

  /** All pauses while one text is typed make one step of the browser's history. */
  #chooseText({ isTyping = false } = {}) {
    clearTimeout(this.#typing);
    this.#choose({ field: this.#field.value, text: this.#text.value }, this.#hasTyped);
    this.#hasTyped = isTyping;
  }

  #choose(more, replaces = false) {
    const chosen = { ...this.#query, ...more, after: null };
    if (!chosen.text) chosen.field = chosen.text = null;
    const address = to("models", ["view", this.#view.name], chosen);
    this.#isOwnChoice = address !== location.hash;
    if (replaces) location.replace(address);
    else location.hash = address;
  }

  #sort(key) {
    if (key === undefined) return;
    const { sort } = this.#query;
    // Up, down, and then as the server has them: by id.
    const next = sort === key ? `-${key}` : sort === `-${key}` ? null : key;
    location.hash = to("models", ["view", this.#view.name], { ...this.#query, sort: next });
  }

  #drawFilters() {
    const { filters } = this.#parts;
    clearTimeout(this.#typing);
    this.#hasTyped = false;
    this.#text.value = this.#query.text ?? "";
    this.#drawFields();
    filters.replaceChildren(
      html("div.field", html("label", { for: "filter-field" }, "field"), this.#field),
      html("div.field", html("label", { for: "filter-text" }, "contains"), this.#text),
      ...timeFields(this.#query, (times) => this.#choose(times), undefined, true));
  }

  #drawFields() {
    const chosen = this.#query.field ?? this.#field.value;
    // The server takes what is before the first = for the path.
    const known = pathsOf(this.#found.docs).filter((path) => !path.includes("="));
    const paths = chosen && !known.includes(chosen) ? [chosen, ...known] : known;
    render(this.#field, paths.map((path) => html("option", { value: path, "data-key": path }, visible(path).slice(0, 60))));
    if (chosen) this.#field.value = chosen;
  }

  #draw() {
    const { docs, next } = this.#found;
    const { after, sort } = this.#query;
    this.#drawFields();
    const isFiltered = FILTERS.some((name) => this.#query[name]);
    render(this.#parts.table,
      html("p.note", { role: "status" }, this.#count(isFiltered)),
      docs.length > 0 && documentTable(this.#view, docs, sort),
      pager({ after, next, toPage: (cursor) => to("models", ["view", this.#view.name], { ...this.#query, after: cursor }) }));
  }

  /** How many documents are shown, and of how many, as far as that is known. */
  #count(isFiltered) {
    const { docs, next } = this.#found;
    const { after, sort } = this.#query;
    const total = live.totals?.collections.find(({ collection }) => collection === this.#view.collection)?.docs;
    const inPage = sort && (next || after) ? " Sorted within this page." : "";
    if (isFiltered) {
      if (next) return `${docs.length ? `${counted(docs.length, "document")} that match` : "None yet that matches"}; there are more to look at: next page.${inPage}`;
      return docs.length ? `${counted(docs.length, "document")} that match${docs.length === 1 ? "es" : ""}${after ? " on this page" : ""}.${inPage}` : "No document matches.";
    }
    if (!docs.length) return after ? "There are no more." : "None yet: nothing has arrived for this view.";
    if (!next && !after) return `${counted(docs.length, "document")}.`;
    const part = after ? whole(docs.length) : `First ${whole(docs.length)}`;
    return `${part}${total === undefined ? "" : ` of ${whole(total)}`}, by id.${inPage}`;
  }
}

function nestedNote() {
  return html("p.note", "This view chooses the collection of each document itself. Those of other collections are among ",
    html("a", { href: to("docs") }, "all collections"), ".");
}

function documentTable(view, docs, sort) {
  const paths = pathsOf(docs);
  const columns = paths.slice(0, COLUMNS_MAX);
  const numbers = new Set(columns.filter((path) => isNumeric(docs, path)));
  const head = html("thead", html("tr",
    heading(ID, "document", sort), columns.map((path) => heading(`.${path}`, path, sort, numbers.has(path))), heading(PUBLISHED, "published", sort, true, "When the message that last changed the document was published")));
  const rows = sorted(docs, sort).map((doc) => row(doc, columns, numbers));
  const left = paths.length - columns.length;
  return [scrollBox(`Documents of ${visible(view.name)}`, html("table.documents-board", head, html("tbody", rows))),
    left > 0 && html("p.note", `${counted(left, "more field")} on each document’s page.`)];
}

function isNumeric(docs, path) {
  const values = docs.filter((doc) => !isDeleted(doc)).map(({ data }) => valueAt(data, path)).filter((value) => value !== undefined && value !== null);
  return values.length > 0 && values.every((value) => typeof value === "number");
}

function heading(key, label, sort, isNumber = false, title = null) {
  const order = sort === key ? "ascending" : sort === `-${key}` ? "descending" : null;
  const arrow = { ascending: "\u00a0▲", descending: "\u00a0▼" }[order] ?? null;
  return html("th", { scope: "col", class: isNumber ? "number" : null, "aria-sort": order, "data-key": key },
    html("button.plain", { type: "button", "data-sort": key, title }, said(label, NAME_MAX), arrow && html("span", { "aria-hidden": "true" }, arrow)));
}

function row(doc, columns, numbers) {
  const link = html("a", { href: toDocument(`${doc.collection}/${doc.id}`) }, mono(doc.id, NAME_MAX));
  const cells = isDeleted(doc)
    ? columns.length > 0 && html("td.note", { colspan: columns.length }, "deleted")
    : columns.map((path) => html("td", { class: numbers.has(path) ? "number" : null }, cellOf(valueAt(doc.data, path))));
  return html("tr", { "data-key": doc.id }, html("th", { scope: "row" }, link), cells, html("td.number", age(publishedAt(doc))));
}
