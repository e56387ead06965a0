// A chart over time: stacked bars or lines, axes, a read-out, and a table of the same.

import { html, render, svg } from "./dom.js";
import { clock, minute, serverNowMs } from "./format.js";
import { mark, toneOf, wordOf } from "./marks.js";
import { buckets, spanOf, spanText } from "./series.js";
import { tableHead } from "./table.js";

const LEFT = 52;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;
// Longer than a step: steps drift a little, and a bar must not be empty because of that.
const BUCKETS_S = [4, 10, 20, 30, 60, 120, 300, 600, 1_200];
const BAR_PX_MIN = 4;
const LABEL_STEPS_S = [10, 30, 60, 120, 300, 600, 1_200, 3_600, 7_200, 14_400, 21_600];
const LABEL_PX_MIN = 62;

/** `layers` are the signs' names, from the bottom up; `values(steps, seconds)` gives their numbers in a stretch. */
export class TimeChart {
  #options;
  #drawing = svg("svg", { "aria-hidden": "true" });
  #cursor = html("input.cursor", { type: "range", min: 0, value: 0, step: 1 });
  #reading = html("p.reading");
  #span = html("small.span");
  #table = html("div.scroll");
  #unfold;
  #stretches = [];
  #selected = null;
  #last = null;

  constructor(options) {
    this.#options = options;
    this.#cursor.setAttribute("aria-label", `${options.title}: move along the time`);
    this.#unfold = html("details.as-table", html("summary", "As a table"), this.#table);
    const plot = html("div.plot", { class: options.kind }, this.#drawing, this.#cursor);
    this.element = html("figure.chart", html("figcaption", html("h2", options.title, " ", this.#span), this.#reading), plot, this.#unfold);
    this.#listen(plot);
  }

  /** Show at most `chosenS` seconds; less if the series is younger, and the heading says how many. */
  update(series, chosenS) {
    this.#last = [series, chosenS];
    const windowS = spanOf(series, chosenS);
    render(this.#span, `last ${spanText(windowS)}`);
    const width = this.#drawing.clientWidth;
    if (!width) return;
    const room = width - LEFT - RIGHT;
    // A bar is never shorter than a step.
    const fits = (s) => s >= series.stepSeconds && room / (windowS / s) >= BAR_PX_MIN;
    const bucketS = BUCKETS_S.find(fits) ?? BUCKETS_S.at(-1);
    const endS = series.at.at(-1) ?? serverNowMs() / 1e3;
    this.#stretches = buckets(series, { windowS, bucketS, endS, values: this.#options.values });
    this.#draw(width, this.#drawing.clientHeight);
  }

  #listen(plot) {
    new ResizeObserver(() => this.#last && this.update(...this.#last)).observe(plot);
    plot.addEventListener("pointermove", (event) => {
      const box = this.#drawing.getBoundingClientRect();
      const room = box.width - LEFT - RIGHT;
      const place = Math.floor(((event.clientX - box.left - LEFT) / room) * this.#stretches.length);
      this.#select(Math.min(Math.max(place, 0), this.#stretches.length - 1));
    });
    plot.addEventListener("pointerleave", () => this.#select(null));
    this.#cursor.addEventListener("focus", () => this.#select(this.#stretches.length - 1));
    this.#cursor.addEventListener("input", () => this.#select(Number(this.#cursor.value)));
    this.#cursor.addEventListener("blur", () => this.#select(null));
    this.#unfold.addEventListener("toggle", () => this.#tabulate());
  }

  #select(place) {
    this.#selected = place === null ? null : (this.#stretches[place]?.start ?? null);
    if (this.#last) this.#draw(this.#drawing.clientWidth, this.#drawing.clientHeight);
  }

  #draw(width, height) {
    const { layers, kind, format } = this.#options;
    const stacked = kind === "bars";
    const totals = this.#stretches.map(({ values }) => topOf(values, stacked));
    const steps = scaleOf(Math.max(...totals, this.#options.atLeast ?? 0));
    const frame = { width, height, top: steps.at(-1), n: this.#stretches.length };
    const lines = stacked ? barPaths(this.#stretches, layers, frame) : linePaths(this.#stretches, layers, frame);
    const place = this.#stretches.findIndex(({ start }) => start === this.#selected);
    this.#drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    render(
      this.#drawing,
      steps.map((value) => gridLine(value, (this.#options.axis ?? format)(value), frame)),
      timeLabels(this.#stretches, frame),
      lines,
      place >= 0 && svg("line.here", { x1: middleOf(place, frame), x2: middleOf(place, frame), y1: TOP, y2: height - BOTTOM }),
    );
    this.#read(place);
    if (this.#unfold.open) this.#tabulate();
  }

  #read(place) {
    const { layers, format, unit } = this.#options;
    const known = this.#stretches.findLastIndex(({ values }) => values !== null);
    const at = place >= 0 ? place : known;
    this.#cursor.max = String(Math.max(0, this.#stretches.length - 1));
    this.#cursor.value = String(Math.max(0, at));
    const stretch = this.#stretches[at];
    if (!stretch) return render(this.#reading, html("span", "nothing yet"));
    const named = layers.map((name, n) => [name, stretch.values?.[n] ?? null]);
    const shown = this.#options.kind === "bars" ? named.filter(([, value]) => value) : named;
    const length = stretch.seconds < 120 ? `${stretch.seconds} s` : spanText(stretch.seconds);
    const when = `${clock(stretch.start * 1e3)} UTC, ${length}`;
    const texts = shown.map(([name, value]) => `${wordOf(name)} ${value === null ? "–" : format(value)}`);
    this.#cursor.setAttribute("aria-valuetext", `${when}: ${texts.join(", ") || "nothing"} ${unit}`);
    const parts = shown.map(([name], n) => html("span.value", mark(name), texts[n]));
    return render(this.#reading, html("span.when", when), parts.length ? parts : html("span", stretch.values ? "nothing" : "not known"));
  }

  #tabulate() {
    if (!this.#unfold.open) return;
    const { layers, format, title } = this.#options;
    const words = layers.map(wordOf);
    const rows = this.#stretches.filter(({ values }) => values).reverse().map(({ start, values }) => {
      const cells = values.map((value) => html("td.number", value === null ? "–" : format(value)));
      return html("tr", html("th", { scope: "row" }, clock(start * 1e3)), cells);
    });
    render(this.#table, html("table", html("caption.unseen", title), tableHead(["from, UTC", ...words], words), html("tbody", rows)));
  }
}

function topOf(values, stacked) {
  if (!values) return 0;
  return stacked ? values.reduce((a, b) => a + b, 0) : Math.max(0, ...values.filter((value) => value !== null));
}

/** From zero to a round number at or above `top`, in three to five steps. */
export function scaleOf(top) {
  const rough = (top || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const count = Math.max(1, Math.ceil((top || 1) / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, n) => n * step);
}

const middleOf = (place, { width, n }) => LEFT + ((place + 0.5) * (width - LEFT - RIGHT)) / n;
const heightOf = (value, { height, top }) => height - BOTTOM - (value / top) * (height - TOP - BOTTOM);

function gridLine(value, text, frame) {
  const y = Math.round(heightOf(value, frame)) + 0.5;
  return [
    svg("line.grid", { x1: LEFT, x2: frame.width - RIGHT, y1: y, y2: y }),
    svg("text.axis.end", { x: LEFT - 6, y: y + 4 }, text),
  ];
}

function timeLabels(stretches, frame) {
  if (!stretches.length) return [];
  const [first, last] = [stretches[0].start, stretches.at(-1).start + stretches.at(-1).seconds];
  const perSecond = (frame.width - LEFT - RIGHT) / (last - first);
  const step = LABEL_STEPS_S.find((s) => s * perSecond >= LABEL_PX_MIN) ?? LABEL_STEPS_S.at(-1);
  const text = step < 60 ? clock : minute;
  const labels = [];
  for (let at = Math.ceil(first / step) * step; at < last; at += step) {
    const x = LEFT + (at - first) * perSecond;
    if (x < LEFT + 14 || x > frame.width - RIGHT - 14) continue;
    labels.push(svg("line.tick", { x1: x, x2: x, y1: frame.height - BOTTOM, y2: frame.height - BOTTOM + 4 }));
    labels.push(svg("text.axis.middle", { x, y: frame.height - 5 }, text(at * 1e3)));
  }
  return labels;
}

function barPaths(stretches, layers, frame) {
  const wide = (frame.width - LEFT - RIGHT) / frame.n;
  const gap = wide > 5 ? 1 : 0.6;
  const paths = layers.map(() => "");
  stretches.forEach(({ values }, place) => {
    let below = 0;
    values?.forEach((value, n) => {
      if (!value) return;
      const [y0, y1] = [heightOf(below, frame), heightOf(below + value, frame)];
      const x = (LEFT + place * wide).toFixed(2);
      paths[n] += `M${x} ${y0.toFixed(2)}V${y1.toFixed(2)}h${(wide - gap).toFixed(2)}V${y0.toFixed(2)}z`;
      below += value;
    });
  });
  return layers.map((name, n) => svg("path.layer", { class: toneOf(name), d: paths[n] }));
}

function linePaths(stretches, layers, frame) {
  return layers.map((name, n) => {
    let path = "";
    let pen = false;
    stretches.forEach(({ values }, place) => {
      const value = values?.[n] ?? null;
      const point = value === null ? "" : `${middleOf(place, frame).toFixed(1)} ${heightOf(value, frame).toFixed(1)}`;
      // A point without neighbours is drawn as a very short line.
      if (point) path += pen ? `L${point}` : `M${point}h.01`;
      pen = value !== null;
    });
    return svg("path.line", { class: toneOf(name), d: path });
  });
}
