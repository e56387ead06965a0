// What the search found: messages, documents and letters. If it is one thing, or a message has this id, its page.

import { getJson, query } from "./api.js";
import { html, render } from "./dom.js";
import { age, counted, whole } from "./format.js";
import { chip } from "./marks.js";
import { to, toDocument, toEvent } from "./routes.js";
import { mono, said, visible } from "./text.js";
import { staleNotice } from "./trouble.js";

export async function show(page) {
  const q = (page.route.query.q ?? "").trim();
  page.title(`Search: ${visible(q).slice(0, 60)}`);
  if (!q) {
    page.element.append(html("h1", "Search"), html("p.note", "Type an id or a text into the field at the top, and press Enter."));
    return;
  }
  const found = await getJson(`/api/search${query({ q })}`, page.signal);
  const place = onlyPlace(found);
  if (place) {
    // In the place of this page, so that "back" does not search again.
    location.replace(place);
    return;
  }
  new Results(page, found).draw();
}

/** Where to go at once; null if there is a choice, or if not everything was looked through. */
function onlyPlace({ q, messages, documents, letters, more, next }) {
  if (messages.some(({ messageId }) => messageId === q)) return toEvent(q);
  if (more || next !== null) return null;
  const places = [...new Set(messages.map(() => toEvent(q))), ...documents.map(documentPlace), ...letters.map(letterPlace)];
  return places.length === 1 ? places[0] : null;
}

function documentPlace({ collection, id }) {
  return toDocument(`${collection}/${id}`);
}

function letterPlace({ id }) {
  return to("letters", [id]);
}

class Results {
  #page;
  #found;
  #body = html("div");

  constructor(page, found) {
    this.#page = page;
    this.#found = found;
    page.element.append(html("h1", "Found for ", said(found.q, 80)), this.#body);
  }

  draw() {
    const { messages, documents, letters, more } = this.#found;
    const isEmpty = !messages.length && !documents.length && !letters.length;
    render(this.#body,
      isEmpty && html("section.sheet", html("h2", "Nothing"), html("p",
        "No message, event, document or letter has this id, no document’s id begins with it, and no letter holds it. ",
        "An old message may have left the event log; with EVENT_LOG=off no message is recorded.")),
      section("Messages", messages, messageRow),
      section("Documents", documents, documentRow),
      more && html("p.note", "There are more messages or documents: type more of the id."),
      section("Letters", letters, letterRow),
      this.#progress());
  }

  #progress() {
    const { scanned, unopened, next } = this.#found;
    const button = html("button", { type: "button", onclick: () => this.#goOn() }, "Look through more letters");
    return html("section.search-progress", { "data-key": "progress" },
      html("p.note", { role: "status" }, `${counted(scanned, "letter")} looked through${next === null ? ", which is all" : "; there are more"}.`,
        unopened > 0 && ` ${whole(unopened)} could not be opened.`),
      next !== null && html("div.actions", button));
  }

  async #goOn() {
    const before = this.#found;
    try {
      const following = await getJson(`/api/search${query({ q: before.q, after: before.next })}`, this.#page.signal);
      const known = new Set(before.letters.map(({ id }) => id));
      this.#found = {
        ...before,
        letters: [...before.letters, ...following.letters.filter(({ id }) => !known.has(id))],
        scanned: before.scanned + following.scanned,
        unopened: before.unopened + following.unopened,
        next: following.next,
      };
      this.draw();
    } catch (error) {
      if (!this.#page.signal.aborted) this.#body.prepend(staleNotice(error));
    }
  }
}

function section(title, found, row) {
  if (!found.length) return null;
  return html("section.sheet", { "data-key": title },
    html("div.head", html("h2", title), html("span.note", whole(found.length))), html("ul.documents", found.map(row)));
}

function messageRow({ messageId, eventId, topic, arrivedAt, outcome }) {
  return html("li", { "data-key": `${messageId} ${topic}` },
    html("a", { href: toEvent(messageId) }, mono(messageId, 100)), " ", chip(outcome),
    html("p.glimpse", "arrived ", age(arrivedAt), topic && [" on ", said(topic, 60)], eventId && [", about event ", mono(eventId, 100)]));
}

function documentRow(found) {
  return html("li", { "data-key": `${found.collection}/${found.id}` },
    html("a", { href: documentPlace(found) }, mono(`${found.collection}/${found.id}`, 160)),
    !found.exact && html("p.glimpse", "its id begins with this text"));
}

function letterRow(letter) {
  return html("li", { "data-key": letter.id },
    html("a", { href: letterPlace(letter) }, mono(letter.messageId || letter.id, 100)), " ", said(letter.reason, 60),
    html("p.glimpse", "in its ", said(letter.field, 40), ": ", mono(letter.excerpt.replace(/\s+/g, " "), 300)),
    html("p.glimpse", "buried ", age(letter.buriedAt), letter.topic && [" on ", said(letter.topic, 60)]));
}
