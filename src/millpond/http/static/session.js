// The server's path, and its admin token, which is kept in sessionStorage and gone with the tab.

import { html } from "./dom.js";

// Empty, or the path of a mount or a proxy.
export const BASE = new URL("..", import.meta.url).pathname.slice(0, -1);

const KEY = `millpond.token${BASE}`;
let asking = null;
// A reader who closed the prompt is asked again by a button only.
let declined = false;

export function token() {
  return sessionStorage.getItem(KEY);
}

/** Ask the reader for a token; `refused` is one the server refused. False if none was given. */
export function askForToken(refused) {
  // Another request may have asked meanwhile, and been answered.
  if (token() !== refused) return Promise.resolve(true);
  if (declined) return Promise.resolve(false);
  asking ??= prompt(refused !== null).then((given) => {
    asking = null;
    declined = !given;
    return given;
  });
  return asking;
}

export function mayAskAgain() {
  declined = false;
}

function prompt(wasRefused) {
  const field = html("input", {
    id: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false", autofocus: true,
    "aria-describedby": "token-note",
  });
  const form = html(
    "form",
    html("h2", { id: "token-title" }, "This server requires its token"),
    wasRefused && html("p.fault", { role: "alert" }, "That token was not accepted."),
    html("label", { for: "token" }, "ADMIN_TOKEN"),
    field,
    html("p.note", { id: "token-note" }, "It is kept in this tab only, and is forgotten when you close it."),
    html("div.actions", html("button.primary", { type: "submit" }, "Continue")),
  );
  const dialog = html("dialog.token", { "aria-labelledby": "token-title" }, form);
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim());
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(field.value.trim() !== "");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
