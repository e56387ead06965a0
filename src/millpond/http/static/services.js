// The board of services, pipelines and latest ticks: those of them whose built-in view is on.

import { docsPath, getJson, query } from "./api.js";
import { html, render } from "./dom.js";
import { age, decimal, figure, serverNowMs } from "./format.js";
import { inCollections, keepFresh } from "./live.js";
import { chip, toneOfStatus } from "./marks.js";
import { to, toDocument } from "./routes.js";
import { sparkline } from "./sparkline.js";
import { scrollBox, tableHead } from "./table.js";
import { said } from "./text.js";
import { staleNotice } from "./trouble.js";

const SECTIONS = [
  ["ops_services", "Services", (docs) => html("ul.board", ranked(docs).map((doc) => serviceCard(doc)))],
  ["ingest_pipelines", "Pipelines", (docs) => html("ul.board", ranked(docs).map((doc) => pipelineCard(doc)))],
  ["market_ticks_latest", "Latest ticks", (docs, prices) => tickTable(docs, prices)],
];
const TICKS = "market_ticks_latest";
const SHOWN_MAX = 200;
// A heartbeat older than this is called quiet: most senders beat every minute or so.
const QUIET_S = 300;
const SEVERITY = { critical: 0, warning: 1, neutral: 2, ok: 3 };

/** `names` are the collections of the views that are on. */
export async function show(page, body, names) {
  page.title("Read models");
  const { signal } = page;
  const shown = SECTIONS.filter(([collection]) => names.includes(collection));
  const page1 = (collection) => getJson(docsPath(collection) + query({ limit: SHOWN_MAX }), signal);
  const load = async () => {
    const lines = names.includes(TICKS) ? getJson("/api/sparklines", signal) : {};
    const [byCollection, ...found] = await Promise.all([lines, ...shown.map(([collection]) => page1(collection))]);
    const prices = byCollection[TICKS] ?? {};
    render(body, shown.map(([collection, title, content], n) =>
      section(title, found[n], collection, content(found[n].docs, prices))));
  };
  keepFresh({
    signal, load,
    touches: inCollections(...shown.map(([collection]) => collection)),
    onError: (error) => {
      if (!body.querySelector(".notice")) body.prepend(staleNotice(error));
    },
  });
  await load();
}

function section(title, { docs, next }, collection, content) {
  const all = html("a", { href: to("docs", [collection]) }, next ? `First ${SHOWN_MAX} · all of them` : `${docs.length} in all`);
  return html("section.sheet", { "data-key": collection }, html("div.head", html("h2", title), docs.length > 0 && all),
    docs.length ? content : html("p.note", "None yet: nothing has arrived for this view."));
}

/** What needs a person first, then what is quiet, then by id. */
function ranked(docs) {
  const rank = ({ data }) => SEVERITY[toneOfStatus(data.status)] * 2 + (isQuiet(data) ? 0 : 1);
  return [...docs].sort((a, b) => rank(a) - rank(b) || (a.id < b.id ? -1 : 1));
}

function isQuiet(data) {
  return serverNowMs() - Date.parse(data.lastHeartbeatAt) > QUIET_S * 1_000;
}

function serviceCard(doc) {
  const { data } = doc;
  return statusCard(doc, data.serviceId, [["version", data.version], ["region", data.region], ["env", data.env]]);
}

function pipelineCard(doc) {
  const { data } = doc;
  return statusCard(doc, data.pipelineId, [["tenant", data.tenantId], ["env", data.env]]);
}

function statusCard(doc, name, facts) {
  const { data } = doc;
  const tone = toneOfStatus(data.status);
  return html("li.card", { "data-key": doc.id, class: `tone-${tone}` },
    html("div.head",
      html("h3", html("a", { href: toDocument(`${doc.collection}/${doc.id}`) }, said(name ?? doc.id, 60))),
      chip(tone, said(data.status ?? "unknown", 30))),
    html("dl.facts", facts.filter(([, value]) => value)
      .map(([label, value]) => html("div", html("dt", label), html("dd", said(value, 40))))),
    html("p.beat", isQuiet(data) ? html("strong", "quiet: ") : "", "last heartbeat ", age(data.lastHeartbeatAt)));
}

function tickTable(docs, prices) {
  const rows = docs.map(({ id, collection, data }) => {
    const points = (prices[id] ?? []).map(([, price]) => price);
    const change = points.length > 1 ? points.at(-1) - points[0] : null;
    return html("tr", { "data-key": id },
      html("th", { scope: "row" }, html("a", { href: toDocument(`${collection}/${id}`) }, said(data.symbol ?? id, 24))),
      html("td.number.strong", price(data.price)),
      html("td.trend", points.length > 1 ? sparkline(points, { tone: change < 0 ? "falls" : "rises" }) : html("span.note", "no trend yet")),
      html("td.number", change === null ? "–" : `${change < 0 ? "▼" : change > 0 ? "▲" : "="} ${decimal(Math.abs(change))}`),
      html("td.number", price(data.bid)), html("td.number", price(data.ask)),
      html("td.number", data.size === undefined ? "–" : figure(Number(data.size))),
      html("td.number", age(data.lastTickAt)));
  });
  const numbers = ["price", "change", "bid", "ask", "size", "tick"];
  const head = tableHead(["symbol", "price", "recent", ...numbers.slice(1)], numbers);
  return scrollBox("Latest ticks", html("table.ticks", head, html("tbody", rows)));
}

function price(value) {
  if (typeof value !== "number") return "–";
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: Math.abs(value) < 1 ? 6 : 4 });
}
