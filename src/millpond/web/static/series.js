// The last thirty minutes in steps of two seconds, and how they are summed up for a chart. Pure.

import { OUTCOMES } from "./marks.js";

const STEPS_MAX = 900;
const SCALARS = ["p50", "p99", "waiting", "commits", "committed", "buried"];

export function emptySeries() {
  const lists = Object.fromEntries(SCALARS.map((name) => [name, []]));
  return { stepSeconds: 2, at: [], outcomes: Object.fromEntries(OUTCOMES.map((name) => [name, []])), ...lists };
}

export function seriesOf(history) {
  const series = emptySeries();
  series.stepSeconds = history.stepSeconds;
  series.at = history.at;
  for (const name of OUTCOMES) series.outcomes[name] = history.outcomes[name] ?? history.at.map(() => 0);
  for (const name of SCALARS) series[name] = history[name];
  return series;
}

export function append(series, sample) {
  push(series.at, sample.at);
  for (const name of OUTCOMES) push(series.outcomes[name], sample.outcomes[name] ?? 0);
  for (const name of SCALARS) push(series[name], sample[name]);
}

function push(list, value) {
  list.push(value);
  if (list.length > STEPS_MAX) list.shift();
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
