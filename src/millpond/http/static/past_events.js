// Past events of a range of time, from the event log, newest first and in pages.

import { getJson, query } from "./api.js";
import { html } from "./dom.js";
import { eventFilters } from "./event_filters.js";
import { clock, counted, moment, serverNowMs } from "./format.js";
import { chip } from "./marks.js";
import { pager } from "./pager.js";
import { to, toEvent } from "./routes.js";
import { documentLinks, scrollBox, tableHead } from "./table.js";
import { mono, said } from "./text.js";

const PAGE = 50;

export async function showPast(page) {
  const { since, until, outcome, topic, after } = page.route.query;
  const sheet = html("section.sheet.tail", html("div.head", html("h2", "Past events")), eventFilters(page.signal));
  page.element.append(sheet);
  const asked = query({ since, until, outcome, topic: topic || null, limit: PAGE, after });
  const found = await getJson(`/api/events${asked}`, page.signal);
  const head = tableHead(["arrived, UTC", "outcome", "message", "topic", "documents"]);
  const toPage = (position) => to("event", [], { since, until, outcome, topic, after: position });
  sheet.append(html("p.note", { role: "status" }, state(found)),
    ...(found.events.length ? [scrollBox("Past events", html("table.tail", head, html("tbody", found.events.map(row))))] : []),
    ...[pager({ after, next: found.next, toPage })].filter(Boolean));
}

function state({ events, next, keepsLog }) {
  if (!keepsLog) return "EVENT_LOG is off: this server keeps no past events.";
  if (events.length) return `${counted(events.length, "event")}, newest first, as of ${clock(serverNowMs())} UTC.`;
  return next ? "None so far. Older events were not looked at yet: go to the next page." : "There are no events in this range.";
}

function row(event) {
  return html("tr", { "data-key": `${event.messageId} ${event.topic}` },
    html("td.when", moment(event.arrivedAt)),
    html("td", chip(event.outcome), event.reason !== event.outcome && html("span.error", said(event.reason, 40))),
    html("td", html("a", { href: toEvent(event.messageId) }, mono(event.messageId, 40)),
      event.eventId && html("span.error", mono(event.eventId, 40))),
    html("td", event.topic ? said(event.topic, 40) : html("span.note", "none")),
    html("td.docs", documentLinks(event.views, 50)));
}
