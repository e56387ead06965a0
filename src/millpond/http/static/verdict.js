// The one line that says whether the pond is level, from the alerts and the state of the stream. Pure.

import { counted } from "./format.js";

const CLOSED = {
  connecting: "Looking at the pond…",
  reconnecting: "No word from the server",
  refused: "The server does not let this page look",
  paused: "Paused while this tab is hidden",
};

/** `{level, word, text, more}`; level is `ok`, `warning`, `critical` or `unknown`, word is for the window's title. */
export function verdictOf({ state, hello, alerts }) {
  if (state !== "live" || alerts === null) {
    const text = CLOSED[state] ?? CLOSED.connecting;
    const more = state === "reconnecting" ? "What is shown is the last that was known; the page reconnects by itself." : "";
    return { level: "unknown", word: state === "reconnecting" ? "no word" : "", text, more };
  }
  const critical = alerts.filter((alert) => alert.state === "critical");
  const warnings = alerts.filter((alert) => alert.state === "warning");
  const more = explained(critical.length ? critical : warnings);
  if (hello.accepting === false) {
    return { level: "critical", word: "closing", text: "The server is ending: it takes no more messages", more };
  }
  if (critical.length) return { level: "critical", word: "not level", text: "The pond is not level", more };
  if (warnings.length) return { level: "warning", word: "watch", text: "The pond is level, but look at this", more };
  return { level: "ok", word: "level", text: "The pond is level", more: unseenNote(alerts) };
}

function explained(alerts) {
  return alerts.map((alert) => alert.text || alert.title).join(" ");
}

function unseenNote(alerts) {
  const unseen = alerts.filter((alert) => alert.state === "unseen").length;
  const checked = alerts.length - unseen;
  const others = unseen ? `; ${unseen} more can only be seen by Cloud Monitoring` : "";
  return `${counted(checked, "check")} fine${others}.`;
}
