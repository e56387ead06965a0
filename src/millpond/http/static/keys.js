// The keys of every page, and their list. A key without a modifier never fires while typing.

import { html } from "./dom.js";

const KEYS = [
  ["/", "search: ids of messages, events and documents, text in letters"],
  ["g o", "overview"],
  ["g m", "read models"],
  ["g l", "dead letters"],
  ["g e", "events"],
  ["j or ↓, k or ↑", "next and previous letter, in the list of letters"],
  ["x, Shift+x", "select the letter, or everything up to it"],
  ["Enter", "open the letter"],
  ["← →", "move along a chart that has the focus"],
  ["?", "these keys"],
];
const PLACES = { o: "#/", m: "#/models", l: "#/letters", e: "#/event" };
const CHORD_MS = 1_500;
let goingUntil = 0;

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.timeStamp < goingUntil && PLACES[event.key]) {
      event.preventDefault();
      location.hash = PLACES[event.key];
    } else if (event.key === "/") {
      event.preventDefault();
      const field = document.getElementById("search-id");
      field.focus();
      field.select();
    } else if (event.key === "?") showKeys();
    goingUntil = event.key === "g" ? event.timeStamp + CHORD_MS : 0;
  });
}

export function isTyping(target) {
  return target.closest?.("input:not([type=checkbox]):not([type=range]), textarea, select") !== null;
}

export function showKeys() {
  const rows = KEYS.map(([keys, meaning]) => html("tr", html("th", { scope: "row" }, html("kbd", keys)), html("td", meaning)));
  const close = html("button.primary", { type: "button", autofocus: true }, "Close");
  const dialog = html(
    "dialog",
    { "aria-labelledby": "keys-title" },
    html("h2", { id: "keys-title" }, "Keys"),
    html("table.keys", html("tbody", rows)),
    html("div.actions", close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
