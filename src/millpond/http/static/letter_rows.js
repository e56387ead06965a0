// A page of letters as a table, or as cards if there is no room for one.

import { html } from "./dom.js";
import { age } from "./format.js";
import { stateOf } from "./replay_state.js";
import { mono, said } from "./text.js";

export function letterRows(letters, selection, openId, href) {
  if (!letters.length) return html("p.note", "No letters here.");
  const rows = letters.map((letter) => row(letter, selection.has(letter.id), letter.id === openId, href(letter.id)));
  const all = html("input", { type: "checkbox", id: "select-page", "aria-label": "Select this page" });
  const heads = ["message", "why", "topic", "buried", "state"];
  return html("table.rows", html("caption.unseen", "Letters"),
    html("thead", html("tr", html("th.tick", { scope: "col" }, all), heads.map((name) => html("th", { scope: "col", class: name }, name)))),
    html("tbody", rows));
}

function row(letter, isSelected, isOpen, href) {
  const box = html("input", { type: "checkbox", "data-id": letter.id, checked: isSelected, "aria-label": "Select this letter" });
  const link = html("a", { href, "data-id": letter.id, "aria-current": isOpen ? "true" : null }, mono(letter.messageId ?? letter.id, 60));
  return html("tr", { "data-key": letter.id, class: isOpen ? "open" : null },
    html("td.tick", box),
    html("td.who", link),
    html("td.why", html("b", said(letter.reason ?? "–", 60)), html("span.error", said(letter.error ?? "", 160))),
    html("td.topic", letter.topic ? said(letter.topic, 40) : html("span.note", "no topic")),
    html("td.when", age(letter.buriedAt)),
    html("td.replayed", stateOf(letter)));
}
