// The signs of outcomes and states: each has a shape, a word and a colour.

import { html, svg } from "./dom.js";

const SHAPES = {
  circle: "M8 3a5 5 0 1 1 0 10A5 5 0 0 1 8 3z",
  square: "M3.5 3.5h9v9h-9z",
  down: "M2.5 4h11L8 13.5z",
  up: "M8 2.5 13.8 12.8H2.2z",
  hourglass: "M3.5 3h9L9.2 8l3.3 5h-9l3.3-5z",
  ring: "M8 2.7a5.3 5.3 0 1 1 0 10.6A5.3 5.3 0 0 1 8 2.7zm0 2a3.3 3.3 0 1 0 0 6.6 3.3 3.3 0 0 0 0-6.6z",
  cross: "M4.6 3 8 6.4 11.4 3 13 4.6 9.6 8l3.4 3.4-1.6 1.6L8 9.6 4.6 13 3 11.4 6.4 8 3 4.6z",
  again: "M8 2.6a5.4 5.4 0 0 1 4.6 2.6L14 3.8v4.4H9.6l1.5-1.5A3.4 3.4 0 1 0 11.2 9l1.9.9A5.4 5.4 0 1 1 8 2.6z",
  diamond: "M8 1.8 14.2 8 8 14.2 1.8 8z",
  check: "M6.5 12.6 2.4 8.5 4 6.9l2.5 2.5 5.5-5.5 1.6 1.6z",
  dots: "M2.5 6.8h2.6v2.6H2.5zM6.7 6.8h2.6v2.6H6.7zM10.9 6.8h2.6v2.6h-2.6z",
};

// In the order they are stacked and listed in.
export const OUTCOMES = ["applied", "duplicate", "stale_ignored", "too_old_ignored", "filtered", "poison", "retry"];

const SIGNS = {
  applied: { shape: "circle", word: "applied" },
  duplicate: { shape: "square", word: "duplicate" },
  stale_ignored: { shape: "down", word: "stale" },
  too_old_ignored: { shape: "hourglass", word: "too old" },
  filtered: { shape: "ring", word: "filtered" },
  poison: { shape: "cross", word: "poison" },
  retry: { shape: "again", word: "retry" },
  p50: { shape: "circle", word: "p50" },
  p99: { shape: "up", word: "p99" },
  not_found: { shape: "ring", word: "gone" },
  ok: { shape: "check", word: "ok" },
  warning: { shape: "up", word: "warning" },
  critical: { shape: "diamond", word: "critical" },
  unseen: { shape: "dots", word: "not seen here" },
  neutral: { shape: "ring", word: "" },
  READY: { shape: "ring", word: "READY" },
  RUNNING: { shape: "again", word: "RUNNING" },
  SUCCEEDED: { shape: "check", word: "SUCCEEDED" },
  FAILED: { shape: "cross", word: "FAILED" },
};

export function wordOf(name) {
  return SIGNS[name]?.word ?? name;
}

/** The class that gives a sign its colour; what we do not know is neutral. */
export function toneOf(name) {
  return Object.hasOwn(SIGNS, name) ? `is-${name.toLowerCase().replaceAll("_", "-")}` : "is-neutral";
}

export function shapeOf(name) {
  return SHAPES[(Object.hasOwn(SIGNS, name) ? SIGNS[name] : SIGNS.neutral).shape];
}

export function mark(name) {
  const path = svg("path", { d: shapeOf(name) });
  return svg("svg.mark", { class: toneOf(name), viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

/** A sign with its word; `word` where the word is not ours to choose. */
export function chip(name, word = wordOf(name)) {
  return html("span.chip", { class: toneOf(name) }, mark(name), word);
}

const FINE = /^(ok|up|healthy|running|ready|serving|green|active|online|live|pass(ing|ed)?)$/i;
const POOR = /^(degraded|warn(ing)?|slow|lagging|starting|stopping|draining|paused|yellow|late|partial)$/i;
const BAD = /^(down|error|fail(ed|ing)?|critical|unhealthy|dead|stopped|offline|red|crashed)$/i;

/** What a service's or pipeline's own word for its status most likely means; unknown words are neutral. */
export function toneOfStatus(status) {
  const word = String(status).trim();
  if (FINE.test(word)) return "ok";
  if (POOR.test(word)) return "warning";
  return BAD.test(word) ? "critical" : "neutral";
}
