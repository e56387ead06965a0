// One letter, opened: what arrived, why it was buried, and its payload as text, which can be corrected.

import { getJson } from "./api.js";
import { copyButton } from "./copy.js";
import { html, render } from "./dom.js";
import { age, bytes, moment } from "./format.js";
import { indented } from "./json_text.js";
import { correctionOf, openEditor } from "./letter_edit.js";
import { chip } from "./marks.js";
import { sentenceOf } from "./reasons.js";
import { STATES } from "./replay_state.js";
import { toEvent } from "./routes.js";
import { block, mono, said } from "./text.js";
import { tree } from "./tree.js";

const REPLACED = "\ufffd";
const EDITED_CHARS_MAX = 500_000;
const GONE = "This letter is gone: it was purged, or has expired.";

// The letter that each place shows, as JSON text, so that a letter that has not changed is not drawn again.
const shown = new WeakMap();

export async function openLetter(place, id, { back, work, signal }) {
  place.setAttribute("aria-busy", "true");
  let content;
  try {
    const letter = await getJson(letterPath(id), signal);
    shown.set(place, JSON.stringify(letter));
    content = opened(letter, back, work);
  } catch (error) {
    if (signal.aborted) return;
    shown.delete(place);
    content = unavailable(error.status === 404 ? GONE : error.message, back);
  }
  place.removeAttribute("aria-busy");
  place.replaceChildren(content);
  focusHeading(place, matchMedia("(min-width: 70rem)").matches);
}

/** Show the letter again if it has changed, and only if `mayReplace()` once it is here. The focus stays where it was. */
export async function refreshLetter(place, id, { back, work, signal, mayReplace }) {
  let [text, content] = [GONE, null];
  try {
    const letter = await getJson(letterPath(id), signal);
    text = JSON.stringify(letter);
    content = opened(letter, back, work);
  } catch (error) {
    if (error.status !== 404) throw error;
    content = unavailable(GONE, back);
  }
  if (signal.aborted || !mayReplace() || shown.get(place) === text) return;
  shown.set(place, text);
  const controls = () => [...place.querySelectorAll("a, button, summary")];
  const hadFocus = place.contains(document.activeElement);
  const [at, label] = [controls().indexOf(document.activeElement), document.activeElement?.textContent];
  place.replaceChildren(content);
  if (!hadFocus) return;
  const same = controls()[at];
  if (same?.textContent === label) same.focus({ preventScroll: true });
  else focusHeading(place, true);
}

function letterPath(id) {
  return `/api/letters/${encodeURIComponent(id)}`;
}

function unavailable(text, back) {
  return html("section.sheet", html("h2", "Letter"), html("p", said(text)), html("a.button", { href: back }, "Back to the list"));
}

function focusHeading(place, preventScroll) {
  const heading = place.querySelector("h2");
  heading.tabIndex = -1;
  heading.focus({ preventScroll });
}

function opened(letter, back, work) {
  return html("section.sheet.letter", { "aria-label": "Open letter" },
    html("div.head", html("div.titled", html("h2", mono(letter.messageId, 80)), copyButton(letter.messageId, "the message id")),
      html("a", { href: back }, "Close")),
    html("p.fault", html("b", said(letter.reason)), " ", sentenceOf(letter.reason)),
    letter.error && html("p.error", said(letter.error, 1_000)),
    letter.trace && block(letter.trace),
    refusals(letter.refusals ?? []),
    html("div.actions",
      html("button", { type: "button", onclick: () => work.preview([letter.id]) }, "What would replay change?"),
      html("button.primary", { type: "button", onclick: () => work.replay([letter.id]) }, "Replay…"),
      html("a.button", { href: toEvent(letter.messageId) }, "What became of it")),
    html("h3", "Envelope"),
    html("dl.facts.rows", envelope(letter).map(([name, value]) => html("div", html("dt", name), html("dd", value)))),
    attributes(letter.attributes),
    payloadSection(letter));
}

/** The payload, and the editor in its place while it is being corrected. */
function payloadSection(letter) {
  const section = html("div.payload");
  const show = (current) => {
    section.replaceChildren();
    const edit = html("button", { type: "button" }, "Edit the payload…");
    edit.addEventListener("click", () => openEditor(section, current, (saved) => {
      show(saved ?? current);
      section.querySelector("button")?.focus();
    }));
    const size = bytes(new TextEncoder().encode(current.data).length);
    render(section, html("div.head", html("h3", "Payload ", html("span.note", size)), html("span.spring"),
        current.data !== "" && copyButton(current.data, "the payload"), mayEdit(current) ? edit : null),
      !mayEdit(current) && html("p.note", whyNot(current)),
      correctionOf(current), payload(current.data));
  };
  show(letter);
  return section;
}

function mayEdit({ state, data }) {
  return state !== "succeeded" && data.length <= EDITED_CHARS_MAX;
}

function whyNot({ state }) {
  if (state === "succeeded") return "It was replayed successfully: publish a change as a new message.";
  return "It is too long to be edited here: use millpond dlq edit.";
}

/** The views that refused it, each with its reason. */
function refusals(listed) {
  if (listed.length < 2) return null;
  const row = ({ view, reason, error }) => html("li", html("b", said(view, 100)), " ", said(`${reason}: ${error}`, 300));
  return [html("p.note", "A replay asks the views that refused it:"), html("ul.refusals", listed.map(row))];
}

function envelope(letter) {
  return [
    ["letter", [mono(letter.id, 120), " ", copyButton(letter.id, "the letter id")]],
    ["topic", letter.topic ? said(letter.topic) : "none found"],
    ["event type", letter.eventType ? said(letter.eventType) : "–"],
    letter.view && ["view", said(letter.view)],
    ["subscription", letter.subscription ? mono(letter.subscription) : "–"],
    ["published", `${moment(letter.publishTime)} UTC`],
    ["buried", [moment(letter.buriedAt), " UTC (", age(letter.buriedAt), ")"]],
    ["expires", letter.expireAt ? age(letter.expireAt) : "–"],
    letter.deliveryAttempt !== null && ["delivery attempt", String(letter.deliveryAttempt)],
    letter.orderingKey && ["ordering key", mono(letter.orderingKey)],
    ["error type", said(letter.errorType ?? "–")],
    ["state", said(STATES[letter.state] ?? letter.state)],
    ["replays", letter.replays ? [String(letter.replays), ", last ", chip(letter.replayOutcome), " ", age(letter.replayedAt)] : "none"],
  ].filter(Boolean);
}

function attributes(text) {
  const found = parsed(text);
  if (!found || !Object.keys(found).length) return null;
  return [html("h3", "Attributes"), tree(found)];
}

/** As text: indented if it is JSON, with a warning if bytes were lost. */
function payload(text) {
  if (text === "") return html("p.note", "It is empty.");
  return [
    text.includes(REPLACED) && html("p.note", "Bytes that are not UTF-8 are shown as ", REPLACED, "; the letter holds them as they were."),
    block(indented(text)),
  ];
}

function parsed(text) {
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" ? found : undefined;
  } catch {
    return undefined;
  }
}
