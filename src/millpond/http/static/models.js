// The read models: a frame with a tab for every board. Which boards there are depends on the views that are loaded.

import { ApiError, loaded } from "./api.js";
import { html, render } from "./dom.js";
import { live } from "./live.js";
import { to } from "./routes.js";
import { said } from "./text.js";

// Built-in views that share one board, or have a special one. All other views have the general one.
const TOGETHER = ["ops_services", "ingest_pipelines", "market_ticks_latest"];
const BARS = "market_bars_1m";
const SIGNALS = "trade_signals";
const LABEL_MAX = 40;

/** The tabs; those of views come with the stream's first event. Nothing moves when they do. */
export function tabs(current, signal) {
  const nav = html("nav.tabs", { "aria-label": "Read models" });
  const draw = () => {
    if (!live.hello) return;
    const links = places(live.hello.views).map(({ key, label, href }) =>
      html("a", { href, "data-key": key, "aria-current": key === current ? "page" : null }, said(label, LABEL_MAX)));
    render(nav, links);
    requestAnimationFrame(() => showWhole(nav, nav.querySelector("[aria-current]")));
  };
  live.addEventListener("hello", draw, { signal });
  draw();
  return nav;
}

/** Many tabs scroll: the chosen one is not left outside. */
function showWhole(nav, link) {
  const end = link ? link.offsetLeft - nav.offsetLeft + link.offsetWidth : 0;
  if (end > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = end - nav.clientWidth;
}

export async function show(page) {
  const all = places(await loadedViews(page.signal));
  const [tab, ...rest] = page.route.parts;
  const wanted = tab === "view" ? `view/${rest.shift()}` : tab;
  const place = wanted === undefined ? all[0] : all.find(({ key }) => key === wanted);
  if (!place?.show) {
    location.hash = to("models");
    return undefined;
  }
  const body = html("div");
  page.element.append(html("h1", said(place.heading ?? place.label, 80)), tabs(place.key, page.signal), body);
  return place.show(page, body, rest);
}

/** Every board: own views first, then the built-in ones, and what there is without any view. */
function places(views) {
  const builtIn = views.filter((view) => view.builtIn);
  const together = builtIn.map(({ collection }) => collection).filter((name) => TOGETHER.includes(name));
  const has = (name) => builtIn.some(({ collection }) => collection === name);
  const others = builtIn.filter(({ collection }) => ![...TOGETHER, BARS, SIGNALS].includes(collection));
  return [
    ...views.filter((view) => !view.builtIn).map(general),
    together.length > 0 && {
      key: "board", label: "Board", heading: "Read models", href: to("models", ["board"]),
      show: async (page, body) => (await loaded(() => import("./services.js"))).show(page, body, together),
    },
    has(BARS) && special("bars", "Bars", () => import("./bars.js")),
    has(SIGNALS) && special("signals", "Signals", () => import("./signals.js")),
    ...others.map(general),
    special("runs", "Flow runs", () => import("./flow.js")),
    { key: "docs", label: "All collections", href: to("docs") },
  ].filter(Boolean);
}

function general(view) {
  return {
    key: `view/${view.name}`, label: view.name, href: to("models", ["view", view.name]),
    show: async (page, body) => (await loaded(() => import("./board.js"))).show(page, body, view),
  };
}

function special(key, label, load) {
  return {
    key, label, href: to("models", [key]),
    show: async (page, body, rest) => (await loaded(load)).show(page, body, rest),
  };
}

/** The views that are loaded; the stream's first event has them. */
function loadedViews(signal) {
  if (live.hello) return Promise.resolve(live.hello.views);
  return new Promise((resolve, reject) => {
    const fail = () => reject(live.error ?? new ApiError(0, "offline", "The server does not answer."));
    live.addEventListener("hello", () => resolve(live.hello.views), { signal, once: true });
    live.addEventListener("state", () => ["refused", "reconnecting"].includes(live.state) && fail(), { signal });
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    if (["refused", "reconnecting"].includes(live.state)) fail();
  });
}
