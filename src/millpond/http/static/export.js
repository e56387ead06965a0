// The buttons that save documents as a file. The file is fetched with the token, and saved only if all of it arrived.

import { getBlob, query } from "./api.js";
import { html, render } from "./dom.js";
import { said } from "./text.js";

const KEPT_MS = 60_000;

/** `filter()` is what the file is to hold; trouble is shown in `notices`. */
export function exportButtons(collection, filter, notices, signal) {
  const button = (format) => html("button", { type: "button", "data-export": format }, `Export ${format.toUpperCase()}`);
  const row = html("div.exports", { role: "group", "aria-label": "Export" }, button("csv"), button("json"));
  row.addEventListener("click", async ({ target }) => {
    const pressed = target.closest?.("button[data-export]");
    if (!pressed || row.getAttribute("aria-busy")) return;
    row.setAttribute("aria-busy", "true");
    render(notices, html("p.note", { role: "status" }, "The file is being made …"));
    try {
      const { export: format } = pressed.dataset;
      const blob = await getBlob(`/api/export/${encodeURIComponent(collection)}${query({ format, ...filter() })}`, signal);
      save(blob, `${collection.replaceAll(/[^\w-]+/g, "_").slice(0, 100)}.${format}`);
      render(notices);
    } catch (error) {
      if (!signal.aborted) render(notices, html("p.notice", { role: "alert" }, "The export failed, and nothing was saved: ", said(error.message, 200)));
    }
    row.removeAttribute("aria-busy");
  });
  return row;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
