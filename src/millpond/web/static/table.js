// What tables share: a row of heads, and a box to scroll in where one is wider than the page.

import { html } from "./dom.js";

/** The heads of the columns; those in `numbers` stand at the right, as their cells do. */
export function tableHead(names, numbers = []) {
  const cell = (name) => html("th", { scope: "col", class: numbers.includes(name) ? "number" : null }, name);
  return html("thead", html("tr", names.map(cell)));
}

/** A box that scrolls by itself; it can take the focus, so that keys scroll it too. */
export function scrollBox(label, ...children) {
  return html("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, children);
}
