// Links to the first and the next page of a list that is read by `after`; the browser's own "back" leads back.

import { html } from "./dom.js";

export function pager({ after, next, toPage, label = "Pages" }) {
  if (!after && !next) return null;
  return html("nav.pager", { "aria-label": label },
    button("First page", after && toPage(null)), button("Next page", next && toPage(next)));
}

function button(text, href) {
  return href ? html("a.button", { href }, text) : html("span.button", { "aria-disabled": "true" }, text);
}
