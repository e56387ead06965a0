// Numbers, durations and times as people read them. Times are UTC.

import { html } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en");
const BRIEF = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;
// How far our clock is behind the server's; ages are counted by the server's.
let behindMs = 0;

export function setServerNow(text) {
  const now = Date.parse(text);
  if (Number.isFinite(now)) behindMs = now - Date.now();
}

export function serverNowMs() {
  return Date.now() + behindMs;
}

export function whole(n) {
  return WHOLE.format(n);
}

/** A number for which there is little room: 12.3K, 1.23M from ten thousand on. */
export function brief(n) {
  return n < 10_000 ? figure(n) : BRIEF.format(n);
}

export function counted(n, one, many = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

/** A rate or a mean: three figures at most before it is whole. */
export function decimal(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return "–";
  if (n === 0 || n >= 100) return whole(Math.round(n));
  return n >= 10 ? n.toFixed(1) : n.toFixed(n >= 1 ? 1 : 2);
}

export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.0995) return `${(s * 1e3).toFixed(1)} ms`;
  return s < 1 ? `${Math.round(s * 1e3)} ms` : `${s.toFixed(s < 10 ? 2 : 1)} s`;
}

/** A round number of seconds, as it stands at an axis. */
export function roundSeconds(s) {
  if (s === 0) return "0";
  return s < 1 ? `${Number((s * 1e3).toPrecision(3))} ms` : `${Number(s.toPrecision(3))} s`;
}

/** A number that may be a count or a measure. */
export function figure(n) {
  return Number.isInteger(n) ? whole(n) : decimal(n);
}

export function bytes(n) {
  if (n < 1_000) return `${n} B`;
  return n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

/** A length of time in its two greatest units at most. */
export function span(s) {
  const sign = s < 0 ? "−" : "";
  const t = Math.abs(Math.round(s));
  if (t < 2 * MINUTE_S) return `${sign}${t} s`;
  if (t < 2 * HOUR_S) return `${sign}${Math.floor(t / MINUTE_S)} min`;
  if (t < 2 * DAY_S) return `${sign}${Math.floor(t / HOUR_S)} h ${Math.floor((t % HOUR_S) / MINUTE_S)} min`;
  return `${sign}${Math.floor(t / DAY_S)} days`;
}

export function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}

export function minute(ms) {
  return new Date(ms).toISOString().slice(11, 16);
}

/** 2026-01-08 12:34:56.5 from RFC 3339 text; what is no time is shown as it is. */
export function moment(text) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/.exec(text ?? "");
  return found ? `${found[1]} ${found[2]}${(found[3] ?? "").replace(/0+$/, "").replace(/\.$/, "")}` : String(text ?? "–");
}

/** How long ago, counting on by itself. */
export function age(text, { suffix = " ago" } = {}) {
  const at = Date.parse(text);
  if (!Number.isFinite(at)) return html("span", "–");
  return html("time", { datetime: text, title: `${moment(text)} UTC`, "data-age": suffix }, ageText(at, suffix));
}

function ageText(at, suffix) {
  const s = (serverNowMs() - at) / 1e3;
  return s < -1 ? `in ${span(-s)}` : `${span(Math.max(0, s))}${suffix}`;
}

export function keepAgesCounting() {
  setInterval(() => {
    if (document.hidden) return;
    for (const node of document.querySelectorAll("time[data-age]")) {
      const text = ageText(Date.parse(node.getAttribute("datetime")), node.dataset.age);
      if (node.firstChild.data !== text) node.firstChild.data = text;
    }
  }, 1_000);
}
