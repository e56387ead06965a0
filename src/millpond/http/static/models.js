// The read models: a frame with tabs, and the board of services, pipelines and ticks.

import { docsPath, getJson, loaded, query } from "./api.js";
import { html, render } from "./dom.js";
import { age, decimal, figure, serverNowMs } from "./format.js";
import { inCollections, keepFresh } from "./live.js";
import { chip, toneOfStatus } from "./marks.js";
import { to, toDocument } from "./routes.js";
import { sparkline } from "./sparkline.js";
import { scrollBox, tableHead } from "./table.js";
import { said } from "./text.js";
import { staleNotice } from "./trouble.js";

const TABS = [
  ["Board", to("models"), "board"],
  ["Bars", to("models", ["bars"]), "bars"],
  ["Signals", to("models", ["signals"]), "signals"],
  ["Flow runs", to("models", ["runs"]), "runs"],
  ["All collections", to("docs"), "docs"],
];
const OTHERS = {
  bars: () => import("./bars.js"),
  signals: () => import("./signals.js"),
  runs: () => import("./flow.js"),
};
const SHOWN_MAX = 200;
// A heartbeat older than this is called quiet: most senders beat every minute or so.
const QUIET_S = 300;
const SEVERITY = { critical: 0, warning: 1, neutral: 2, ok: 3 };

export function tabs(current) {
  const links = TABS.map(([text, href, name]) => html("a", { href, "aria-current": name === current ? "page" : null }, text));
  return html("nav.tabs", { "aria-label": "Read models" }, links);
}

export async function show(page) {
  const [tab, ...rest] = page.route.parts;
  const body = html("div");
  if (tab === undefined) {
    page.title("Read models");
    page.element.append(html("h1", "Read models"), tabs("board"), body);
    return board(page, body);
  }
  if (!Object.hasOwn(OTHERS, tab)) {
    location.hash = to("models");
    return undefined;
  }
  page.element.append(html("h1", TABS.find(([, , name]) => name === tab)[0]), tabs(tab), body);
  return (await loaded(OTHERS[tab])).show(page, body, rest);
}

async function board(page, body) {
  const { signal } = page;
  const page1 = (collection) => getJson(docsPath(collection) + query({ limit: SHOWN_MAX }), signal);
  const load = async () => {
    const [services, pipelines, ticks, lines] = await Promise.all([
      page1("ops_services"), page1("ingest_pipelines"), page1("market_ticks_latest"), getJson("/api/sparklines", signal),
    ]);
    const prices = lines.market_ticks_latest ?? {};
    render(body,
      section("Services", services, "ops_services", html("ul.board", ranked(services.docs).map((doc) => serviceCard(doc)))),
      section("Pipelines", pipelines, "ingest_pipelines", html("ul.board", ranked(pipelines.docs).map((doc) => pipelineCard(doc)))),
      section("Latest ticks", ticks, "market_ticks_latest", tickTable(ticks.docs, prices)));
  };
  keepFresh({
    signal, load,
    touches: inCollections("ops_services", "ingest_pipelines", "market_ticks_latest"),
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
