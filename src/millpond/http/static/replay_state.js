// The replay states of a letter: the API decides them (`state` of a letter), this page only words them.

import { html } from "./dom.js";
import { chip } from "./marks.js";
import { said } from "./text.js";

export const STATES = { never: "never replayed", succeeded: "replayed successfully", failed: "failed again" };
// Addresses from before there were three states: what `replayed` means to the API.
const REPLAYED = { yes: "succeeded", no: "never" };

/** The query of an address, with an older `replayed` as the state it means. */
export function withState({ replayed, ...query }) {
  return { ...query, state: query.state ?? (Object.hasOwn(REPLAYED, replayed) ? REPLAYED[replayed] : undefined) };
}

/** How many letters of a group are in `state`; all of them without one. */
export function countIn(group, state) {
  const counts = { never: group.letters - group.replayed - group.failed, succeeded: group.replayed, failed: group.failed };
  return Object.hasOwn(counts, state) ? counts[state] : group.letters;
}

/** A letter's state, with what its last replay led to. */
export function stateOf(letter) {
  if (letter.state === "never") return html("span.note", STATES.never);
  const sign = letter.state === "succeeded" ? chip("SUCCEEDED", "succeeded") : chip("FAILED", "failed again");
  return [sign, html("span.note", " ", said(letter.replayOutcome ?? "unknown", 40), ` ×${letter.replays ?? 1}`)];
}
