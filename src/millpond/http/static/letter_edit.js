// Correct the payload of an open letter: an editor that checks JSON and shows the difference before it saves.

import { postJson } from "./api.js";
import { html, render } from "./dom.js";
import { age } from "./format.js";
import { faultOf, indented } from "./json_text.js";
import { difference } from "./line_diff.js";
import { said } from "./text.js";

const NAME_KEY = "millpond.name";

/** What was corrected, by whom, and the payload as it arrived; null if the payload is the original one. */
export function correctionOf(letter) {
  const last = letter.edits.at(-1);
  if (!last) return null;
  const who = [html("b", said(last.by, 100)), " ", age(last.at)];
  if (letter.original === undefined) return html("p.note", "Edited, and put back to the original by ", who, ".");
  return [
    html("p", "Corrected by ", who, ". A replay sends the corrected payload at the message’s own place in the order."),
    letter.state !== "never" && letter.replayedEdits !== letter.editCount
      && html("p.notice", "The last replay was of an earlier payload. Views that took it do not take another: publish a change as a new message."),
    html("details.difference", { open: true }, html("summary", "What was corrected"),
      difference(indented(letter.original), indented(letter.data))),
  ];
}

/** Why the correction cannot be saved yet; empty if it can. */
function whyUnsaved(wrong, isSame, name) {
  if (wrong !== null) return "It must be a JSON object.";
  if (isSame) return "Nothing is changed yet.";
  return name === "" ? "Give your name, above." : "";
}

/** Replace `place` with an editor of the letter's payload; `onDone` is called when it is saved or cancelled. */
export function openEditor(place, letter, onDone) {
  const before = indented(letter.data);
  const text = html("textarea.editor", {
    id: "letter-payload", rows: Math.min(24, before.split("\n").length + 2), spellcheck: "false", autocomplete: "off",
    "aria-describedby": "letter-fault",
  });
  text.value = before;
  const name = html("input", { id: "letter-by", type: "text", maxlength: 100, required: true, autocomplete: "name" });
  name.value = localStorage.getItem(NAME_KEY) ?? "";
  const fault = html("p.note", { id: "letter-fault", role: "status" });
  const changes = html("div");
  const save = html("button.primary", { type: "submit", "aria-describedby": "letter-unsaved" }, "Save the correction");
  const unsaved = html("span.note", { id: "letter-unsaved" });
  const check = () => {
    const wrong = faultOf(text.value);
    render(fault, wrong ? said(wrong, 300) : "It is a JSON object.");
    fault.classList.toggle("fault", wrong !== null);
    render(changes, difference(before, text.value));
    const reason = whyUnsaved(wrong, text.value === before, name.value.trim());
    render(unsaved, reason);
    save.disabled = reason !== "";
  };
  const form = html("form.edit", { "aria-label": "Edit the payload" },
    html("label", { for: "letter-payload" }, "Payload"), text, fault,
    html("h3", "Difference"), changes,
    html("label", { for: "letter-by" }, "Your name, recorded with the edit (required)"), name,
    html("div.actions", save,
      letter.original !== undefined && html("button", { type: "button", onclick: () => store(null) }, "Put the original back"),
      html("button", { type: "button", onclick: () => onDone(null) }, "Cancel"), unsaved));

  async function store(data) {
    if (!name.reportValidity()) return;
    save.disabled = true;
    try {
      localStorage.setItem(NAME_KEY, name.value.trim());
      const body = { data, by: name.value.trim(), edits: letter.editCount };
      onDone(await postJson(`/api/letters/${encodeURIComponent(letter.id)}/edit`, body));
    } catch (error) {
      render(fault, "It was not saved: ", said(error.message, 400));
      fault.classList.add("fault");
      save.disabled = false;
      fault.scrollIntoView({ block: "nearest" });
    }
  }

  form.addEventListener("input", check);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    store(text.value);
  });
  place.replaceChildren(form);
  check();
  text.focus();
}
