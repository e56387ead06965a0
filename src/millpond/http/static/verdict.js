// The page's headline: what is wrong first, from the alerts and the state of the stream. Pure.

import { counted } from "./format.js";

const CLOSED = {
  connecting: "Connecting to the server…",
  reconnecting: "Disconnected from the server",
  refused: "The server refuses access to this page",
  paused: "Paused while this tab is hidden",
};
const TITLES = { reconnecting: "disconnected", refused: "refused" };
// A failing store is the cause of other alerts, so it comes before them.
const CAUSES = ["store-denied", "store-failing", "store-transient"];

/** `{level, word, text, more, since, alert}`: `word` is for the window's title; `since` is when the headline's alert
 * began, and `alert` is its id. */
export function verdictOf({ state, hello, alerts, error }) {
  if (state !== "live" || alerts === null) {
    const text = CLOSED[state] ?? CLOSED.connecting;
    return { level: "unknown", word: TITLES[state] ?? "", text, more: unknownNote(state, error) };
  }
  const firing = ["critical", "warning"].flatMap((level) => causesFirst(alerts.filter((alert) => alert.state === level)));
  if (hello.accepting === false) {
    const text = "The server is shutting down and takes no more messages";
    return { level: "critical", word: "shutting down", text, more: firing.map(sentence).join(" ") };
  }
  if (!firing.length) return { level: "ok", word: "ok", text: "No alert is firing", more: unseenNote(alerts) };
  const [first, ...others] = firing;
  const [more, { since, id: alert }] = [others.map(sentence).join(" "), first];
  return { level: first.state, word: first.state, text: headline(first, others.length), more, since, alert };
}

function causesFirst(alerts) {
  const rank = (alert) => (CAUSES.includes(alert.id) ? CAUSES.indexOf(alert.id) : CAUSES.length);
  return alerts.sort((a, b) => rank(a) - rank(b));
}

/** The title alone if seconds are measured: their number would stand still until the next change of state. */
function headline(alert, others) {
  const text = alert.unit === "seconds" ? alert.title : sentence(alert).replace(/\.$/, "");
  return others ? `${text}, and ${counted(others, "more alert")}` : text;
}

function sentence(alert) {
  return alert.text || alert.title;
}

function unknownNote(state, error) {
  if (state === "reconnecting") return "The page shows the last known state and reconnects by itself.";
  return state === "refused" ? error?.message ?? "" : "";
}

function unseenNote(alerts) {
  const unseen = alerts.filter((alert) => alert.state === "unseen").length;
  const checked = alerts.length - unseen;
  const others = unseen ? `; only Cloud Monitoring can check ${unseen} more` : "";
  return `${counted(checked, "check")} fine${others}.`;
}
