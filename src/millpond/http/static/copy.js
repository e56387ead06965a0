// A button that copies a text as it is: not the text made visible that stands on the page beside it.

import { html, own } from "./dom.js";

const SHOWN_MS = 2_000;

/** `what` names the text for people who do not see what the button stands beside. */
export function copyButton(text, what) {
  const whole = String(text);
  const button = html("button.copy", { type: "button", "aria-label": `Copy ${what}`, title: `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(whole);
    } catch {
      // Browsers have no clipboard for pages without TLS on another machine, and people may refuse it.
      showText(whole, what);
      return;
    }
    say(button, "Copied", "Copied");
    setTimeout(() => say(button, "Copy", `Copy ${what}`), SHOWN_MS);
  });
  return own(button, `copy ${what} ${whole}`);
}

function say(button, text, label) {
  button.textContent = text;
  button.setAttribute("aria-label", label);
}

/** The text, selected, for people to copy themselves. */
function showText(whole, what) {
  const field = html("textarea", { readonly: true, rows: 6, "aria-label": what, spellcheck: "false" });
  field.value = whole;
  const close = html("button.primary", { type: "button" }, "Close");
  const dialog = html("dialog", { "aria-labelledby": "copy-title" },
    html("h2", { id: "copy-title" }, `Copy ${what}`),
    html("p", "The browser does not let this page copy. The text is selected: press Ctrl+C, or ⌘C on a Mac."),
    field, html("div.actions", close));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  field.select();
}
