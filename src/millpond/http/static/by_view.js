// What each view made of its events in the half hour or the day that is shown: the views of one message may disagree,
// and the outcome of the message tells of one of them only.

import { html } from "./dom.js";
import { whole } from "./format.js";
import { mark, OUTCOMES, wordOf } from "./marks.js";
import { tableHead } from "./table.js";
import { said } from "./text.js";

const STALE = "stale_ignored";

/** A table of the loaded views; outcomes that no view had get no column. */
export function byView(views, series) {
  const names = [...new Set([...views.map(({ name }) => name), ...Object.keys(series.views)])];
  const rows = names.map((name) => ({ name, counts: countsOf(series.views[name] ?? {}) }));
  const columns = OUTCOMES.filter((outcome) => outcome === STALE || rows.some(({ counts }) => counts[outcome]));
  if (!rows.some(({ counts }) => total(counts))) return html("p.note", "No events yet.");
  const heads = [...columns.map(wordOf), "share stale"];
  return html("table.by-view", html("caption.unseen", "Events by view and outcome"),
    tableHead(["view", ...heads], heads),
    html("tbody", rows.map(({ name, counts }) => row(name, counts, columns))));
}

function row(name, counts, columns) {
  const cells = columns.map((outcome) => html("td.number", { "data-outcome": outcome, class: counts[outcome] ? null : "none" },
    html("span.word", mark(outcome), wordOf(outcome)), whole(counts[outcome] ?? 0)));
  return html("tr", { "data-key": name }, html("th", { scope: "row" }, said(name, 60)), cells,
    html("td.number.share", html("span.word", "share stale"), shareOf(counts[STALE] ?? 0, total(counts))));
}

function countsOf(outcomes) {
  return Object.fromEntries(Object.entries(outcomes).map(([name, list]) => [name, list.reduce((a, b) => a + b, 0)]));
}

function total(counts) {
  return Object.values(counts).reduce((a, b) => a + b, 0);
}

function shareOf(stale, events) {
  if (!events) return "–";
  // One stale event of a million is not none.
  if (stale && stale / events < 0.001) return "< 0.1 %";
  return `${Number(((100 * stale) / events).toPrecision(3))} %`;
}
