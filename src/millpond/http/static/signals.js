// Trade signals with the state of their lives, a page at a time.

import { docsPath, getJson, query } from "./api.js";
import { html, render } from "./dom.js";
import { age, counted } from "./format.js";
import { inCollections, keepFresh } from "./live.js";
import { chip } from "./marks.js";
import { pager } from "./pager.js";
import { to, toDocument } from "./routes.js";
import { scrollBox, tableHead } from "./table.js";
import { said } from "./text.js";
import { staleNotice } from "./trouble.js";

const COLLECTION = "trade_signals";
const PAGE = 50;
// Words that say a signal's life is over; no order is inferred from any of them.
const DONE = /^(filled|done|closed|completed|executed)$/i;
const LOST = /^(rejected|cancell?ed|expired|failed|error)$/i;

export async function show(page, body) {
  page.title("Signals");
  const { after } = page.route.query;
  const load = async () => {
    const { docs, next } = await getJson(docsPath(COLLECTION) + query({ limit: PAGE, after }), page.signal);
    render(body, html("section.sheet",
      docs.length ? table(docs) : html("p.note", "None yet: nothing has arrived for this view."),
      pager({ after, next, toPage: (cursor) => to("models", ["signals"], { after: cursor }) })));
  };
  keepFresh({
    signal: page.signal, load,
    touches: inCollections(COLLECTION),
    onError: (error) => !body.querySelector(".notice") && body.prepend(staleNotice(error)),
  });
  await load();
}

function table(docs) {
  const rows = docs.map(({ id, data }) => html("tr", { "data-key": id },
    html("th", { scope: "row" }, html("a", { href: toDocument(`${COLLECTION}/${id}`) }, said(data.signalId ?? id, 40))),
    html("td", data.state === undefined ? html("span.note", "no state") : chip(toneOf(data.state), said(data.state, 30))),
    html("td", said(data.symbol ?? "–", 20)),
    html("td", said(data.side ?? data.action ?? "–", 20)),
    html("td", said(data.strategyId ?? data.strategy ?? "–", 30)),
    html("td.number", typeof data.confidence === "number" ? data.confidence.toFixed(2) : "–"),
    html("td.number", data.sequence === undefined ? "–" : String(data.sequence)),
    html("td", updates(data)),
    html("td.number", age(data.updatedAt))));
  const names = ["signal", "state", "symbol", "side", "strategy", "confidence", "sequence", "made of", "updated"];
  const head = tableHead(names, ["confidence", "sequence", "updated"]);
  return scrollBox("Trade signals", html("table", head, html("tbody", rows)));
}

function toneOf(state) {
  if (DONE.test(state)) return "ok";
  return LOST.test(state) ? "critical" : "neutral";
}

function updates(data) {
  const stamps = data.source?.stamps;
  return Array.isArray(stamps) ? counted(stamps.length, "update") : "one update";
}
