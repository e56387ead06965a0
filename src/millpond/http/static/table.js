// What tables share: a row of heads, links to documents, and a box to scroll a wide one in.

import { html } from "./dom.js";
import { toDocument } from "./routes.js";
import { mono } from "./text.js";

/** The heads of the columns; those in `numbers` stand at the right, as their cells do. */
export function tableHead(names, numbers = []) {
  const cell = (name) => html("th", { scope: "col", class: numbers.includes(name) ? "number" : null }, name);
  return html("thead", html("tr", names.map(cell)));
}

/** A box that scrolls by itself; it can take the focus, so that keys scroll it too. */
export function scrollBox(label, ...children) {
  return html("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, children);
}

/** The documents of a message's views; a view that did not want the message has none. */
export function documentLinks(views, chars) {
  const named = (views ?? []).filter((view) => view.doc);
  return named.map((view) => html("a.doc", { href: toDocument(view.doc) }, mono(view.doc, chars)));
}
