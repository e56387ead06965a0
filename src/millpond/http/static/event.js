// One message or event, view by view, with both stamps taken apart. Without an id: the live tail, or past events.

import { docsPath, getJson, loaded } from "./api.js";
import { copyButton } from "./copy.js";
import { html, render } from "./dom.js";
import { age, moment, seconds, span } from "./format.js";
import { keepFresh } from "./live.js";
import { chip } from "./marks.js";
import { sentenceOf } from "./reasons.js";
import { to, toDocument, toEvent } from "./routes.js";
import { decidingPart, stampParts } from "./stamp.js";
import { scrollBox, tableHead } from "./table.js";
import { showTail } from "./tail.js";
import { mono, said, visible } from "./text.js";
import { staleNotice } from "./trouble.js";

const DONE = {
  applied: "It was applied.",
  duplicate: "It was a duplicate, and changed nothing.",
  stale_ignored: "It was stale: the document already held something newer.",
  too_old_ignored: "It arrived later than the view allows.",
  filtered: "No view takes it.",
  poison: "It was buried as a dead letter.",
  retry: "It was not settled; the sender delivers it again.",
};

export async function show(page) {
  const [id] = page.route.parts;
  if (id === undefined) {
    page.title("Events");
    page.element.append(html("h1", "Events"), searchForm());
    const { since, until } = page.route.query;
    return since || until ? (await loaded(() => import("./past_events.js"))).showPast(page) : showTail(page);
  }
  page.title(visible(id));
  const body = html("div");
  page.element.append(html("p.crumbs", html("a", { href: to("event") }, "All events")),
    html("div.titled", html("h1", mono(id, 200)), copyButton(id, "this id")), body);
  const load = async () => render(body, await story(id, page.signal));
  keepFresh({
    signal: page.signal, load,
    touches: () => true,
    onError: (error) => !body.querySelector(".notice") && body.prepend(staleNotice(error)),
  });
  await load();
  return undefined;
}

function searchForm() {
  const field = html("input", { id: "event-id", name: "id", type: "search", autocomplete: "off", spellcheck: "false" });
  const form = html("form.find", html("label", { for: "event-id" }, "Message or event id"),
    html("div.row", field, html("button.primary", { type: "submit" }, "Show its history")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) location.hash = toEvent(field.value.trim());
  });
  return html("section.sheet", form);
}

async function story(id, signal) {
  let found;
  try {
    found = await getJson(`/api/why/${encodeURIComponent(id)}`, signal);
  } catch (error) {
    if (error.status !== 404) throw error;
    return html("section.sheet", html("h2", "There is no record of it"),
      html("p", "It has not arrived, was not settled, or is older than the event log. With EVENT_LOG=off nothing is recorded."));
  }
  return Promise.all(found.messages.map((message) => life(message, signal)));
}

async function life(message, signal) {
  const waitedS = (Date.parse(message.arrivedAt) - Date.parse(message.publishTime)) / 1e3;
  const views = await Promise.all(message.views.map(async (view) => viewSection(message, view, await heldFields(view, signal))));
  return html("article.sheet.life", { "data-key": `${message.messageId} ${message.topic}` },
    html("div.head", html("div.titled", html("h2", "Message ", mono(message.messageId, 100)), copyButton(message.messageId, "the message id")),
      chip(message.outcome)),
    html("ol.story",
      html("li", html("b", "Published"), " ", moment(message.publishTime), " UTC, ", age(message.publishTime),
        message.eventId !== null && [", about event ", html("a", { href: toEvent(message.eventId) }, mono(message.eventId, 80)), " ",
          copyButton(message.eventId, "the event id")]),
      html("li", html("b", "Arrived"), " ", moment(message.arrivedAt), " UTC, ", later(waitedS),
        message.subscription && [", by ", mono(message.subscription, 100)]),
      html("li", html("b", "Topic"), " ", message.topic ? said(message.topic) : "none could be found"),
      html("li", html("b", "Outcome"), " ", DONE[message.outcome] ?? said(message.outcome), code(message),
        message.outcome === "poison" && [" ", sentenceOf(message.reason)],
        message.letter && [" ", html("a", { href: to("letters", [message.letter]) }, "Open its letter")])),
    views);
}

function later(s) {
  if (s < 0) return "before it was published, by the server’s clock";
  return `${s < 10 ? seconds(s) : span(s)} later`;
}

/** The fields of a merged document that this message still gives; null for other documents. */
async function heldFields(view, signal) {
  if (!view.doc) return null;
  const at = view.doc.lastIndexOf("/");
  try {
    const { data } = await getJson(docsPath(view.doc.slice(0, at), view.doc.slice(at + 1)), signal);
    const stamps = data.source?.stamps;
    return Array.isArray(stamps) ? (stamps.find(({ stamp }) => stamp === view.stamp)?.fields ?? []) : null;
  } catch (error) {
    if (error.status !== 404) throw error;
    return null;
  }
}

function viewSection(message, view, held) {
  return html("section.view", { "data-key": view.view },
    html("div.head", html("h3", "View ", said(view.view)), chip(view.outcome)),
    html("p", sentenceOf(view.reason) || said(view.reason), code(view)),
    view.corrected && html("p.note", "It was asked with the payload that was corrected in the dead letter."),
    // A view that does not want an event never says which document it would be about.
    view.doc && [
      html("p", html("a", { href: toDocument(view.doc) }, mono(view.doc, 120)), " ", copyButton(view.doc, "the document path")),
      verdict(message, view, held),
      comparison(view),
    ]);
}

function verdict(message, view, held) {
  const winner = view.winner?.messageId;
  if (held?.length) {
    const names = held.map((name, n) => [n > 0 && ", ", html("span.name", said(name, 60))]);
    return html("p.verdict-line", "It still gives ", names, " of the document",
      view.won ? "." : [", whose newest part is from ", html("a", { href: toEvent(winner) }, mono(winner, 80)), "."]);
  }
  if (view.won) return html("p.verdict-line", "It won: the document holds what this message says.");
  if (winner === null || winner === undefined) {
    return html("p.verdict-line", "The document names no message: it was deleted, or no view wrote it.");
  }
  const part = decidingPart(view.stamp, view.winner.stamp);
  const link = html("a", { href: toEvent(winner) }, mono(winner, 80));
  if (!part) return html("p.verdict-line", "The document holds what message ", link, " says.");
  const overtaken = view.outcome === "applied" ? "It was overtaken by message " : "It lost to message ";
  return html("p.verdict-line", overtaken, link, ": the ", html("em", part), " decided.");
}

/** The reason as the logs have it, where the outcome does not say it already. */
function code({ outcome, reason }) {
  return reason !== outcome && [" ", html("code", said(reason))];
}

function comparison(view) {
  const [own, won] = [stampParts(view.stamp), stampParts(view.winner?.stamp)];
  if (!own) return html("p.note", "It has no stamp in this view.");
  const part = decidingPart(view.stamp, view.winner?.stamp);
  const rows = own.map(({ name, text }, n) => html("tr", { class: name === part ? "decided" : null },
    html("th", { scope: "row" }, name, name === part && html("span.note", " decided")),
    html("td", mono(text, 80), copyOf(name, text)),
    html("td", won ? [mono(won[n]?.text ?? "–", 80), copyOf(name, won[n]?.text)] : "–")));
  const document = view.won ? "the document (this message)" : "the document now";
  return scrollBox(`Stamps in ${visible(view.view)}`,
    html("table.stamps", tableHead(["part", "this message", document]), html("tbody", rows)));
}

/** Of a stamp's parts only the message id leads anywhere. */
function copyOf(name, text) {
  return name === "message id" && text ? [" ", copyButton(text, "the message id")] : null;
}
