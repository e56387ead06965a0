// Text of a message, made harmless: what cannot be seen is written out, what is endless is cut.

import { html, own } from "./dom.js";

// Control characters, and those that hide, join or turn round what stands beside them.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;
const SHOWN_MAX = 160;

/** The same text with every unseen character spelled out, such as ⟦U+202E⟧. */
export function visible(text) {
  const spelled = (found) => `⟦U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`;
  return String(text).replace(UNSEEN, spelled);
}

export function cut(text, max = SHOWN_MAX) {
  const whole = String(text);
  return whole.length > max ? `${whole.slice(0, max)}…` : whole;
}

/** A short text of a message in a line of ours; its own direction of writing ends where it ends. */
export function said(text, max = SHOWN_MAX) {
  const whole = visible(cut(text, 4 * max));
  return html("bdi.said", { title: whole.length > max ? cut(whole, 1000) : null }, cut(whole, max));
}

/** An id: the same, in the typeface ids have. */
export function mono(text, max = SHOWN_MAX) {
  const whole = visible(cut(text, 4 * max));
  return html("bdi.said.mono", { title: whole.length > max ? cut(whole, 1000) : null }, cut(whole, max));
}

/** A block of text, with the rest of it behind a button where it is long. */
export function block(text, max = 4_000) {
  const whole = visible(text);
  const body = html("pre.block", { tabindex: 0 }, cut(whole, max));
  if (whole.length <= max) return body;
  const more = html("button", { type: "button" }, `Show all ${whole.length.toLocaleString("en")} characters`);
  more.addEventListener("click", () => {
    body.textContent = whole;
    more.remove();
    body.focus();
  });
  return own(html("div", body, more), whole);
}
