// The live tail: what becomes of messages as it happens, newest first, with filters and a pause.

import { query } from "./api.js";
import { html, render } from "./dom.js";
import { eventFilters } from "./event_filters.js";
import { clock, seconds, whole } from "./format.js";
import { chip } from "./marks.js";
import { toEvent } from "./routes.js";
import { eventsOf } from "./stream.js";
import { documentLinks, scrollBox, tableHead } from "./table.js";
import { mono, said } from "./text.js";

const SHOWN_MAX = 200;
const DRAW_MS = 400;
const RETRY_MS = 3_000;

export function showTail(page) {
  const tail = new Tail(page);
  page.element.append(tail.element);
  tail.start();
}

class Tail {
  #page;
  #rows = [];
  #skipped = 0;
  #paused = false;
  #held = 0;
  #dirty = true;
  #stop = null;
  #list = html("tbody");
  #note = html("p.note", { role: "status" });
  #pause = html("button", { type: "button" }, "Pause");

  constructor(page) {
    this.#page = page;
    const head = tableHead(["time, UTC", "outcome", "message", "topic", "documents", "took"], ["took"]);
    this.element = html("section.sheet.tail",
      html("div.head", html("h2", "Live tail"), this.#pause),
      eventFilters(page.signal), this.#note,
      scrollBox("Live tail", html("table.tail", head, this.#list)));
  }

  start() {
    const { signal } = this.#page;
    this.#pause.addEventListener("click", () => this.#toggle());
    const timer = setInterval(() => this.#draw(), DRAW_MS);
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      this.#stop?.abort();
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()), { signal });
    this.#open();
    this.#draw();
  }

  #open() {
    if (this.#stop || document.hidden) return;
    this.#stop = new AbortController();
    this.#run(this.#stop.signal);
  }

  #close() {
    this.#stop?.abort();
    this.#stop = null;
  }

  async #run(signal) {
    const { outcome, topic } = this.#page.route.query;
    while (!signal.aborted) {
      try {
        for await (const { kind, data } of eventsOf(`/api/tail${query({ outcome, topic })}`, signal)) this.#take(kind, data);
      } catch {
        // The header says that the server is away; the tail just tries again.
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  #take(kind, data) {
    if (kind === "skipped") this.#skipped += data.n;
    else if (kind === "outcome" && this.#paused) this.#held += 1;
    else if (kind === "outcome") {
      this.#rows.unshift({ ...data, key: `${data.at} ${data.messageId} ${Math.random()}` });
      this.#rows.length = Math.min(this.#rows.length, SHOWN_MAX);
    }
    this.#dirty = true;
  }

  #toggle() {
    this.#paused = !this.#paused;
    this.#held = 0;
    this.#dirty = true;
    this.#pause.textContent = this.#paused ? "Resume" : "Pause";
    this.#draw();
  }

  #draw() {
    if (!this.#dirty) return;
    this.#dirty = false;
    render(this.#list, this.#rows.map(row));
    const skipped = this.#skipped ? ` ${whole(this.#skipped)} came too quickly to be shown.` : "";
    render(this.#note, this.#state() + skipped);
  }

  #state() {
    if (this.#paused) return `Paused; ${whole(this.#held)} arrived since.`;
    return this.#rows.length ? `The last ${whole(this.#rows.length)}.` : "Waiting for messages.";
  }
}

function row(item) {
  return html("tr", { "data-key": item.key },
    html("td.when", clock(Date.parse(item.at))),
    html("td", chip(item.outcome), item.reason !== item.outcome && html("span.error", said(item.reason, 40))),
    html("td",
      item.messageId ? html("a", { href: toEvent(item.messageId) }, mono(item.messageId, 40)) : "–",
      item.eventId && html("span.error", mono(item.eventId, 40))),
    html("td", item.topic ? said(item.topic, 40) : html("span.note", "none")),
    html("td.docs",
      documentLinks(item.views, 50),
      item.error && html("span.error", said(item.error, 120))),
    html("td.number", seconds(item.latencyMs === null ? null : item.latencyMs / 1e3)));
}
