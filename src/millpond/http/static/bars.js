// One-minute bars as candles: which symbols there are, and the newest two hours of one. It reads by document ids,
// `{SYMBOL}__{minute}`, which sort by symbol and time: nothing is ever listed that is not shown.

import { docsPath, getJson, query } from "./api.js";
import { CandleChart } from "./candles.js";
import { html, render } from "./dom.js";
import { moment, serverNowMs } from "./format.js";
import { inCollections, keepFresh } from "./live.js";
import { to } from "./routes.js";
import { cut, said, visible } from "./text.js";
import { staleNotice } from "./trouble.js";

const COLLECTION = "market_bars_1m";
const SEPARATOR = "__";
// Greater than every minute, and than whatever else may follow a symbol.
const PAST_ALL = "\uffff";
const SYMBOLS_MAX = 60;
const MINUTE_MS = 60_000;
const SHOWN_MINUTES = 120;

export async function show(page, body, [chosen]) {
  page.title("Bars");
  const { signal } = page;
  const symbols = await findSymbols(signal);
  if (!symbols.length) {
    render(body, html("section.sheet", html("p.note", "No bars by symbol and minute. With BARS_ID other than natural they are among ",
      html("a", { href: to("docs") }, "all collections"), ".")));
    return;
  }
  const symbol = chosen ?? symbols[0];
  const chart = new CandleChart(`${cut(visible(nameOf(symbol)), 60)}, one-minute bars`);
  const note = html("p.note");
  const notices = html("div");
  body.append(html("section.sheet", picker(symbols, symbol), notices, chart.element, note));
  const load = async () => {
    const bars = await newestBars(symbol, signal);
    chart.update(bars);
    render(notices);
    render(note, bars.length ? describe(bars) : ["There are no bars of ", said(nameOf(symbol)), "."]);
  };
  keepFresh({
    signal, load,
    touches: inCollections(COLLECTION),
    onError: (error) => render(notices, staleNotice(error)),
  });
  await load();
}

function picker(symbols, symbol) {
  const known = symbols.includes(symbol) ? symbols : [symbol, ...symbols];
  const options = known.map((one) => html("option", { value: one, selected: one === symbol }, visible(nameOf(one)).slice(0, 40)));
  const select = html("select", { id: "symbol" }, options);
  select.addEventListener("change", () => {
    location.hash = to("models", ["bars", select.value]);
  });
  return html("div.picker", html("label", { for: "symbol" }, "Symbol"), select,
    symbols.length >= SYMBOLS_MAX && html("span.note", `the first ${SYMBOLS_MAX}; others by address`));
}

function describe(bars) {
  const span = `${moment(bars[0].ts)} to ${moment(bars.at(-1).ts)} UTC`;
  return `${bars.length} bars, ${span}. Hollow candles rose, filled ones fell.`;
}

/** The symbols by skipping from one to the next: a request for each. */
async function findSymbols(signal) {
  const found = [];
  for (let after = null; found.length < SYMBOLS_MAX; ) {
    const id = await firstId(after, signal);
    const at = id === null ? -1 : id.indexOf(SEPARATOR);
    if (at < 0) return found;
    found.push(id.slice(0, at));
    after = id.slice(0, at) + SEPARATOR + PAST_ALL;
  }
  return found;
}

async function firstId(after, signal) {
  const { docs } = await getJson(docsPath(COLLECTION) + query({ limit: 1, after }), signal);
  return docs.length ? docs[0].id : null;
}

async function newestBars(symbol, signal) {
  const recent = await barsAfter(symbol, serverNowMs() - (SHOWN_MINUTES + 1) * MINUTE_MS, signal);
  if (recent.length) return recent;
  const newest = await newestMinute(symbol, signal);
  return newest === null ? [] : barsAfter(symbol, newest - SHOWN_MINUTES * MINUTE_MS, signal);
}

async function barsAfter(symbol, ms, signal) {
  const { docs } = await getJson(docsPath(COLLECTION) + query({ limit: 2 * SHOWN_MINUTES, after: idOf(symbol, ms) }), signal);
  return docs.filter(({ id }) => id.startsWith(symbol + SEPARATOR)).map(({ data }) => data)
    .filter((bar) => ["open", "high", "low", "close"].every((name) => Number.isFinite(bar[name])));
}

/** When a symbol's last bar is, found by halving: about twenty requests for one document each. */
async function newestMinute(symbol, signal) {
  const minuteAfter = async (after) => {
    const id = await firstId(after, signal);
    return id?.startsWith(symbol + SEPARATOR) ? Date.parse(id.slice(symbol.length + SEPARATOR.length)) : null;
  };
  let low = await minuteAfter(symbol + SEPARATOR);
  if (low === null || !Number.isFinite(low)) return null;
  let high = serverNowMs();
  while (high - low > MINUTE_MS) {
    const middle = low + (high - low) / 2;
    const found = await minuteAfter(idOf(symbol, middle));
    if (found === null) high = middle;
    else low = Math.max(found, middle);
  }
  return low;
}

function idOf(symbol, ms) {
  return `${symbol}${SEPARATOR}${new Date(Math.floor(ms / MINUTE_MS) * MINUTE_MS).toISOString().slice(0, 19)}Z`;
}

/** A symbol as it was sent: ids escape a few characters of it. */
function nameOf(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
