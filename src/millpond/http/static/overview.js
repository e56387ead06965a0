// The overview: the verdict, messages per second, latency, alerts and dead letters.

import { getJson } from "./api.js";
import { byView } from "./by_view.js";
import { TimeChart } from "./chart.js";
import { html, render, svg } from "./dom.js";
import { age, brief, counted, decimal, figure, roundSeconds, seconds, whole } from "./format.js";
import { GROUPS_LAG_MS, keepFresh, live } from "./live.js";
import { chip, mark, OUTCOMES, wordOf } from "./marks.js";
import { to, toRunbook } from "./routes.js";
import { dayOf, greatest, lastSteps, mean, spanOf, spanText, sum } from "./series.js";
import { sparkline } from "./sparkline.js";
import { tableHead } from "./table.js";
import { said } from "./text.js";
import { staleNotice } from "./trouble.js";
import { verdictOf } from "./verdict.js";

const HALF_HOUR_S = 1_800;
const DAY_S = 86_400;
const WINDOWS = [[180, "3 min"], [600, "10 min"], [HALF_HOUR_S, "30 min"], [DAY_S, "24 h"]];
const DAY_REFRESH_MS = 60_000;
const WINDOW_KEY = "millpond.window";
// What "now" means in the numbers: long enough not to flicker, short enough to be now.
const NOW_S = 10;
const TREND_S = 300;
const GROUPS_SHOWN = 5;
const RANK = { critical: 0, warning: 1, ok: 2, unseen: 3 };

export async function show(page) {
  page.title("");
  const { signal } = page;
  const parts = {
    verdict: html("section.verdict", { "aria-label": "State of the service" }),
    tiles: html("dl.tiles"),
    legend: html("div.legend"),
    views: html("div"),
    day: html("div"),
    alerts: html("div"),
    letters: html("div"),
  };
  const flow = new TimeChart({
    title: "Messages per second, by outcome", kind: "bars", layers: OUTCOMES,
    format: decimal, axis: brief, unit: "messages a second", atLeast: 1,
    values: (steps, s) => OUTCOMES.map((name) => sum(series().outcomes[name], steps) / s),
  });
  const latency = new TimeChart({
    title: "Latency", kind: "lines", layers: ["p50", "p99"],
    format: seconds, axis: roundSeconds, unit: "from request to answer", atLeast: 0.005,
    values: (steps) => [mean(series().p50, steps), greatest(series().p99, steps)],
  });
  let windowS = chosenWindow();
  // The day comes from the store: until it does, the half hour of this process is shown.
  let day = null;
  const series = () => (windowS === DAY_S && day ? day : live.series);
  const drawCharts = () => [flow, latency].forEach((chart) => chart.update(series(), Math.min(windowS, day ? DAY_S : HALF_HOUR_S)));
  const drawSums = () => {
    drawCharts();
    render(parts.legend, legend(series(), windowS));
    render(parts.views, viewsNote(series()), byView(live.hello?.views ?? [], series()));
  };
  const loadDay = async () => {
    if (windowS !== DAY_S || document.hidden) return;
    try {
      day = dayOf(await getJson("/api/history", signal));
      render(parts.day, dayNote(day));
      drawSums();
    } catch (error) {
      if (!signal.aborted) render(parts.day, staleNotice(error));
    }
  };
  const choose = (s) => {
    windowS = s;
    localStorage.setItem(WINDOW_KEY, String(s));
    render(parts.day, s === DAY_S && day ? dayNote(day) : []);
    drawSums();
    loadDay();
  };
  page.element.append(layout(parts, flow, latency, windowChooser(windowS, choose)));

  const drawNumbers = () => {
    render(parts.tiles, tiles());
    drawSums();
  };
  const drawState = () => {
    render(parts.verdict, verdict());
    render(parts.alerts, alertList());
  };
  for (const kind of ["hello", "sample", "totals"]) live.addEventListener(kind, drawNumbers, { signal });
  for (const kind of ["state", "alerts"]) live.addEventListener(kind, drawState, { signal });
  live.addEventListener("hello", loadDay, { signal });
  const beat = setInterval(loadDay, DAY_REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
  drawState();
  drawNumbers();
  loadDay();

  const load = async () => {
    const groups = await getJson("/api/letters/groups", signal);
    live.noteLetters(groups.total);
    render(parts.letters, letterGroups(groups));
  };
  const failed = (error) => signal.aborted || render(parts.letters, staleNotice(error));
  keepFresh({ signal, touches: (changed) => changed.letters, lagMs: GROUPS_LAG_MS, load, onError: failed });
  load().catch(failed);
}

function layout(parts, flow, latency, chooser) {
  return html(
    "div.overview",
    parts.verdict,
    parts.tiles,
    html("div.columns",
      html("div.wide",
        html("section.sheet", chooser, flow.element, parts.day, parts.legend),
        html("section.sheet", html("h2", "By view"), parts.views),
        html("section.sheet", latency.element,
          html("p.note", "From the complete request to the answer. ",
            "p50 is the mean, and p99 the highest, of the steps in each stretch of time."))),
      html("div.narrow",
        html("section.sheet", html("h2", "Alerts"), parts.alerts),
        html("section.sheet", html("h2", "Dead letters"), parts.letters))),
  );
}

function chosenWindow() {
  const kept = Number(localStorage.getItem(WINDOW_KEY));
  return WINDOWS.some(([s]) => s === kept) ? kept : HALF_HOUR_S;
}

function windowChooser(windowS, choose) {
  const inputs = WINDOWS.map(([s, text]) => html("label",
    html("input", { type: "radio", name: "window", checked: s === windowS, onchange: () => choose(s) }), html("span", text)));
  return html("fieldset.segments", html("legend.unseen", "Span of the charts"), inputs);
}

function viewsNote(series) {
  const span = spanText(spanOf(series, series === live.series ? HALF_HOUR_S : DAY_S));
  return html("p.note", `Events of the last ${span}. A message that feeds two views is an event of each.`);
}

/** What the day is made of, and what a gap in it means. */
function dayNote({ complete }) {
  const part = complete ? "" : " More instances ran than are read here: the sums are too low.";
  return html("p.note", `Sums of each minute, of all instances, also from before a restart. A gap: the server was down, or idle before it stopped.${part}`);
}

function verdict() {
  const { level, text, more, since, alert } = verdictOf(live);
  // The water in the picture is tilted if an alert fires.
  const tilt = { ok: 0, warning: 2.5, critical: 6, unknown: 0 }[level];
  const surface = svg("svg.pond", { viewBox: "0 0 48 48", "aria-hidden": "true" },
    svg("circle.bank", { cx: 24, cy: 24, r: 22 }),
    svg("path.water", { d: `M3 ${24 - tilt}L45 ${24 + tilt}A21 21 0 0 1 3 ${24 - tilt}z` }),
    svg("path.surface", { d: `M3 ${24 - tilt}L45 ${24 + tilt}` }));
  return html("div.line", { class: `is-${level}` }, surface,
    html("div", html("h1", said(text, 300)),
      html("p", since && ["Began ", age(since), ". "], said(more, 600), alert && [" ", whatToDo(alert)]), standing()));
}

function standing() {
  if (!live.hello) return null;
  const { version, startedAt, store } = live.hello;
  return html("p.note", "Millpond ", version, " · up ", age(startedAt, { suffix: "" }), " · ", said(store, 60));
}

function tiles() {
  const { series, totals } = live;
  const now = lastSteps(series, NOW_S);
  const s = Math.max(1, now.length * series.stepSeconds);
  const trend = lastSteps(series, TREND_S);
  const messages = (steps) => OUTCOMES.reduce((n, name) => n + sum(series.outcomes[name], steps), 0);
  const each = (value) => trend.map((n) => value([n]));
  const commits = sum(series.commits, now);
  return [
    tile("Messages", decimal(messages(now) / s), "/s", each(messages)),
    tile("p50", seconds(mean(series.p50, now)), "", each((n) => mean(series.p50, n))),
    tile("p99", seconds(greatest(series.p99, now)), "", each((n) => greatest(series.p99, n))),
    tile("Waiting", whole(series.waiting.at(-1) ?? 0), "", each((n) => sum(series.waiting, n))),
    tile("Commits", decimal(commits / s), "/s", each((n) => sum(series.commits, n))),
    tile("Per commit", commits ? decimal(sum(series.committed, now) / commits) : "–", "",
      each((n) => (sum(series.commits, n) ? sum(series.committed, n) / sum(series.commits, n) : null))),
    tile("Letters", totals ? whole(totals.letters) : "–", `${whole(sum(series.buried, trend))} new in 5 min`, null, to("letters")),
  ];
}

function tile(name, value, unit, points, href = null) {
  const number = html("span.figure", value, unit && html("span.unit", unit === "/s" ? unit : ` ${unit}`));
  return html("div.tile", html("dt", name),
    html("dd", href ? html("a", { href }, number) : number, points && sparkline(points, { fromZero: true })));
}

/** `now` is of this process; the sums are of what the chart spans. */
function legend(series, windowS) {
  const now = lastSteps(live.series, NOW_S);
  const all = lastSteps(series, windowS);
  const s = Math.max(1, now.length * live.series.stepSeconds);
  const rows = OUTCOMES.map((name) => html("tr",
    html("th", { scope: "row" }, mark(name), wordOf(name)),
    html("td.number", decimal(sum(live.series.outcomes[name], now) / s)),
    html("td.number", whole(sum(series.outcomes[name], all)))));
  const window = spanText(spanOf(series, windowS));
  return html("table", html("caption.unseen", "Messages by outcome"),
    tableHead(["outcome", "now, /s", `in ${window}`], ["now, /s", `in ${window}`]),
    html("tbody", rows));
}

function alertList() {
  if (!live.alerts) return html("p.note", "Not known yet.");
  const sorted = [...live.alerts].sort((a, b) => RANK[a.state] - RANK[b.state]);
  return html("ul.alerts", sorted.map((alert) => html("li", { "data-key": alert.id, class: `state-${alert.state}` },
    html("div.head", html("h3", said(alert.title)), alert.state === "unseen" ? chip("unseen", unseenWord()) : chip(alert.state)),
    html("p", said(alert.text, 300)),
    html("p.facts",
      alert.value !== null && html("span", html("b", figure(alert.value)), " ", said(unitOf(alert))),
      alert.since && html("span", "since ", age(alert.since)),
      html("span", whatToDo(alert.id, alert.title))))));
}

function unitOf({ value, unit }) {
  return value === 1 ? (unit ?? "").replace(/s$/, "") : unit ?? "";
}

/** The link to the alert's heading in the runbook; `title` tells several of them apart for a screen reader. */
function whatToDo(alert, title = "") {
  return html("a", { href: toRunbook(alert), "aria-label": title ? `What to do: ${title}` : null }, "What to do");
}

/** Before the first step nothing was measured; after it, this process can never see what is unseen. */
function unseenWord() {
  return live.series.at.length ? "seen by Cloud Monitoring only" : "not known yet";
}

function letterGroups({ total, groups }) {
  if (!total) return html("p.note", "None.");
  const rows = groups.slice(0, GROUPS_SHOWN).map((group) => html("li",
    html("a", { href: to("letters", [], { reason: group.reason, view: group.view ?? "", topic: group.topic ?? "" }) },
      html("span", said(group.reason), html("small", said(group.topic || "no topic"), group.view ? [" · view ", said(group.view)] : "")),
      html("b", whole(group.letters)))));
  const more = groups.length > GROUPS_SHOWN ? `, and ${counted(groups.length - GROUPS_SHOWN, "more group")}` : "";
  return [html("ul.groups", rows), html("p.note", html("a", { href: to("letters") }, total === 1 ? "The letter" : `All ${counted(total, "letter")}`), more)];
}
