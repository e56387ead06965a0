// The two questions that are asked before letters are replayed or purged.

import { html } from "./dom.js";
import { counted } from "./format.js";
import { STATES } from "./replay_state.js";

// From here on a click is not enough to delete.
const TYPED_FROM = 21;

export function confirmReplay(n) {
  return ask({
    title: `Replay ${counted(n, "letter")}?`,
    texts: [
      "Each message goes through the engine again, as it was or as it was corrected, with its own id and publish time.",
      "Newer state stays: a replay can never undo it, and never counts twice.",
      "The letters stay, with what became of them noted on each.",
    ],
    yes: "Replay",
    kind: "primary",
  });
}

export function confirmPurge(n, state) {
  const word = `purge ${n}`;
  return ask({
    title: `Purge ${counted(n, "letter")} for ever?`,
    texts: [
      "The messages are deleted with everything in them. There is no way back.",
      ...(state ? [`Only letters in the state “${STATES[state] ?? state}” are purged: selected ones in another state stay.`] : []),
    ],
    yes: "Purge",
    kind: "danger",
    typed: n >= TYPED_FROM ? word : null,
  });
}

function ask({ title, texts, yes, kind, typed = null }) {
  const field = typed && html("input", { id: "typed", type: "text", autocomplete: "off", spellcheck: "false", autofocus: true });
  const accept = html("button", { type: "submit", class: kind, disabled: typed !== null }, yes);
  const cancel = html("button", { type: "button", autofocus: typed === null }, "Cancel");
  const form = html("form", html("h2", { id: "question" }, title), texts.map((text) => html("p", text)),
    field && [html("label", { for: "typed" }, "To go on, type ", html("code", typed)), field],
    html("div.actions", cancel, accept));
  const dialog = html("dialog", { "aria-labelledby": "question" }, form);
  return new Promise((resolve) => {
    let answer = false;
    field?.addEventListener("input", () => {
      accept.disabled = field.value.trim() !== typed;
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = true;
      dialog.close();
    });
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
