// The last thirty minutes in steps of two seconds, or a day in minutes, and how they are summed up for a chart. Pure.

import { OUTCOMES } from "./marks.js";

const STEPS_MAX = 900;
const VIEW_STEPS = 30;
const SCALARS = ["p50", "p99", "waiting", "commits", "committed", "buried"];
const MINUTE_S = 60;
const HOUR_S = 3_600;
// What a chart may span, in seconds: a young server gets the smallest that holds all it has counted.
const SPANS_S = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720, 1_440].map((minutes) => minutes * MINUTE_S);

export function emptySeries() {
  const lists = Object.fromEntries(SCALARS.map((name) => [name, []]));
  const outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, []]));
  return { stepSeconds: 2, at: [], outcomes, views: {}, viewSteps: VIEW_STEPS, stretches: 0, inLast: VIEW_STEPS, ...lists };
}

export function seriesOf(history) {
  const series = emptySeries();
  series.stepSeconds = history.stepSeconds;
  series.at = history.at;
  for (const name of OUTCOMES) series.outcomes[name] = history.outcomes[name] ?? history.at.map(() => 0);
  for (const name of SCALARS) series[name] = history[name];
  // The server's stretches end with its newest step: the next sample begins another.
  series.views = history.views;
  series.viewSteps = series.inLast = history.viewSteps;
  series.stretches = Math.ceil(history.at.length / history.viewSteps);
  return series;
}

/** The day, from the sums of its minutes. Minutes that are not known are missing in `at`. */
export function dayOf(history) {
  const outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, history.outcomes[name] ?? history.at.map(() => 0)]));
  const views = Object.entries(history.views).map(([view, counts]) =>
    [view, Object.fromEntries(Object.entries(counts).map(([name, n]) => [name, [n]]))]);
  const { stepSeconds, at, p50, p99, complete } = history;
  return { stepSeconds, at, outcomes, views: Object.fromEntries(views), p50, p99, complete };
}

/** Seconds that a chart of this series spans: what was chosen, or less if the series is younger. */
export function spanOf(series, chosenS) {
  const knownS = series.at.length ? series.at.at(-1) - series.at[0] + series.stepSeconds : 0;
  return Math.min(chosenS, SPANS_S.find((s) => s >= knownS) ?? chosenS);
}

/** A span in words: "3 min", "2 h". */
export function spanText(s) {
  return s < 2 * HOUR_S && s !== HOUR_S ? `${s / MINUTE_S} min` : `${s / HOUR_S} h`;
}

export function append(series, sample) {
  push(series.at, sample.at);
  for (const name of OUTCOMES) push(series.outcomes[name], sample.outcomes[name] ?? 0);
  for (const name of SCALARS) push(series[name], sample[name]);
  appendViews(series, sample.views);
}

/** What views counted is summed up in stretches of `viewSteps`: there may be forty such series. */
function appendViews(series, gained) {
  const most = Math.ceil(STEPS_MAX / series.viewSteps);
  if (series.inLast >= series.viewSteps) {
    series.stretches = Math.min(series.stretches + 1, most);
    series.inLast = 0;
    for (const known of Object.values(series.views)) for (const list of Object.values(known)) push(list, 0, most);
  }
  series.inLast += 1;
  for (const [view, outcomes] of Object.entries(gained)) {
    const known = (series.views[view] ??= {});
    for (const [name, n] of Object.entries(outcomes)) {
      // Only what occurred is sent: a series that begins now was zero before.
      known[name] ??= Array(series.stretches).fill(0);
      known[name][series.stretches - 1] += n;
    }
  }
}

function push(list, value, most = STEPS_MAX) {
  list.push(value);
  if (list.length > most) list.shift();
}

/** Equal stretches of time that end now, each with a value per layer (null where nothing is known).
 *
 * They begin at whole multiples of their length, so that a bar keeps its place and its height while time goes on.
 */
export function buckets(series, { windowS, bucketS, endS, values }) {
  const first = Math.floor((endS - windowS) / bucketS) * bucketS;
  const found = [];
  for (let start = first; start < endS; start += bucketS) found.push({ start, seconds: bucketS, steps: [] });
  series.at.forEach((at, n) => {
    // A step is named by its end.
    const place = Math.floor((at - series.stepSeconds / 2 - first) / bucketS);
    if (place >= 0 && place < found.length) found[place].steps.push(n);
  });
  return found.map(({ start, seconds, steps }) => ({
    start,
    seconds,
    values: steps.length ? values(steps, steps.length * series.stepSeconds) : null,
  }));
}

export function sum(list, steps) {
  let total = 0;
  for (const n of steps) total += list[n] ?? 0;
  return total;
}

/** The mean of what is known in these steps; null where nothing is. */
export function mean(list, steps) {
  const known = steps.map((n) => list[n]).filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

export function greatest(list, steps) {
  const known = steps.map((n) => list[n]).filter((value) => value !== null && value !== undefined);
  return known.length ? Math.max(...known) : null;
}

/** The numbers of the last steps, as many as make up `seconds`. */
export function lastSteps(series, seconds) {
  const n = Math.max(1, Math.round(seconds / series.stepSeconds));
  const length = series.at.length;
  return Array.from({ length: Math.min(n, length) }, (_, i) => length - Math.min(n, length) + i);
}
