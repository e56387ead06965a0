// What is shown where a page cannot be: what happened, and what to do next.

import { html } from "./dom.js";
import { said } from "./text.js";

const PAGES = {
  0: ["The server does not answer", "It may be restarting, or your network may be down. This page tries again by itself."],
  401: ["A token is needed", "This server shows its data only with its ADMIN_TOKEN."],
  403: ["Access is refused", "The server’s reason is below."],
  404: ["There is nothing here", "It may have expired, been purged, or never have existed."],
  429: ["The server is overloaded", "Its queue is full. Try again in a moment."],
  503: ["The store does not answer", "No message is lost: the sender delivers it again. Look at the log and at the store."],
};

/** A whole page for an error; `again` tries once more. */
export function troublePage(error, again) {
  const status = error.status ?? -1;
  const [heading, advice] = PAGES[status] ?? ["Something went wrong", "The server’s log may have more."];
  return html(
    "section.trouble",
    { role: "alert" },
    html("h1", heading),
    html("p", advice),
    status !== 0 && html("p.detail", html("code", said(error.reason ?? error.name)), " ", said(error.message, 400)),
    html("div.actions", html("button.primary", { type: "button", onclick: again }, status === 401 ? "Enter the token" : "Try again")),
  );
}

/** One line above a page that still shows what it last knew. */
export function staleNotice(error) {
  return html("p.notice", { role: "status" }, "This could not be refreshed: ", said(error.message, 200), " The page tries again.");
}
