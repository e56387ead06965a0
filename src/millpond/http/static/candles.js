// Candles with volume, to scale in time. What rose is hollow, what fell is filled.

import { html, render, svg } from "./dom.js";
import { decimal, minute } from "./format.js";

const LEFT = 8;
const RIGHT = 62;
const TOP = 10;
const BOTTOM = 22;
const VOLUME_SHARE = 0.18;
const MINUTE_MS = 60_000;
const LABEL_PX_MIN = 70;
const LABEL_MINUTES = [5, 10, 15, 30, 60, 120];

export class CandleChart {
  #drawing = svg("svg", { "aria-hidden": "true" });
  #cursor;
  #reading = html("p.reading");
  #bars = [];
  #selected = null;

  constructor(title) {
    this.#cursor = html("input.cursor", { type: "range", min: 0, value: 0, step: 1, "aria-label": `${title}: move along the time` });
    const plot = html("div.plot.candles", this.#drawing, this.#cursor);
    this.element = html("figure.chart", html("figcaption", html("h2", title), this.#reading), plot);
    new ResizeObserver(() => this.#draw()).observe(plot);
    plot.addEventListener("pointermove", (event) => this.#select(this.#nearest(event.clientX)));
    plot.addEventListener("pointerleave", () => this.#select(null));
    this.#cursor.addEventListener("input", () => this.#select(Number(this.#cursor.value)));
    this.#cursor.addEventListener("blur", () => this.#select(null));
  }

  update(bars) {
    this.#bars = bars.map((bar) => ({ ...bar, at: Date.parse(bar.ts) })).filter(({ at }) => Number.isFinite(at));
    this.#draw();
  }

  #select(place) {
    this.#selected = place;
    this.#draw();
  }

  #nearest(clientX) {
    if (!this.#bars.length) return null;
    const box = this.#drawing.getBoundingClientRect();
    const frame = frameOf(this.#bars, box.width, box.height);
    const at = frame.first + (clientX - box.left - LEFT) / frame.perMs - MINUTE_MS / 2;
    const distance = (bar) => Math.abs(bar.at - at);
    return this.#bars.reduce((best, bar, n) => (distance(bar) < distance(this.#bars[best]) ? n : best), 0);
  }

  #draw() {
    const [width, height] = [this.#drawing.clientWidth, this.#drawing.clientHeight];
    if (!width) return;
    this.#drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const bars = this.#bars;
    if (!bars.length) {
      render(this.#drawing);
      render(this.#reading);
      return;
    }
    const frame = frameOf(bars, width, height);
    const place = Math.min(this.#selected ?? bars.length - 1, bars.length - 1);
    const here = this.#selected === null ? null : frame.x(bars[place]) + frame.wide / 2;
    render(this.#drawing, frame.prices.map((price) => priceLine(price, frame)), timeLabels(frame),
      svg("path.volume", { d: bars.map((bar) => volumePath(bar, frame)).join("") }),
      [["rose", bars.filter(rose)], ["fell", bars.filter((bar) => !rose(bar))]].map(([name, some]) => [
        svg("path.wick", { class: name, d: some.map((bar) => wickPath(bar, frame)).join("") }),
        svg("path.body", { class: name, d: some.map((bar) => bodyPath(bar, frame)).join("") }),
      ]),
      here !== null && svg("line.here", { x1: here, x2: here, y1: TOP, y2: height - BOTTOM }));
    this.#read(bars[place], place);
  }

  #read(bar, place) {
    const facts = [["open", bar.open], ["high", bar.high], ["low", bar.low], ["close", bar.close], ["volume", bar.volume]];
    const known = facts.filter(([, value]) => typeof value === "number");
    const texts = known.map(([name, value]) => `${name} ${name === "volume" ? decimal(value) : value.toFixed(2)}`);
    const when = `${minute(bar.at)} UTC, ${rose(bar) ? "rose" : "fell"}`;
    this.#cursor.max = String(this.#bars.length - 1);
    this.#cursor.value = String(place);
    this.#cursor.setAttribute("aria-valuetext", `${when}: ${texts.join(", ")}`);
    render(this.#reading, html("span.when", when), texts.map((text) => html("span.value", text)));
  }
}

const rose = (bar) => bar.close >= bar.open;

function frameOf(bars, width, height) {
  const first = bars[0].at;
  const last = bars.at(-1).at + MINUTE_MS;
  const perMs = (width - LEFT - RIGHT) / (last - first);
  const [low, high] = [Math.min(...bars.map((bar) => bar.low)), Math.max(...bars.map((bar) => bar.high))];
  const pad = (high - low || Math.abs(high) || 1) * 0.06;
  const floor = height - BOTTOM - (height - TOP - BOTTOM) * VOLUME_SHARE;
  const volumeMax = Math.max(0, ...bars.map((bar) => bar.volume ?? 0)) || 1;
  return {
    width, height, first, last, perMs, volumeMax,
    // Few bars are not made as wide as the page.
    wide: Math.min(perMs * MINUTE_MS, 18),
    prices: pricesBetween(low - pad, high + pad),
    x: (bar) => LEFT + (bar.at - first) * perMs,
    y: (price) => TOP + ((high + pad - price) / (high - low + 2 * pad)) * (floor - TOP),
    volumeY: (volume) => height - BOTTOM - (volume / volumeMax) * (height - TOP - BOTTOM) * VOLUME_SHARE * 0.9,
  };
}

function pricesBetween(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const found = [];
  for (let price = Math.ceil(low / step) * step; price <= high; price += step) found.push(price);
  return found;
}

function priceLine(price, frame) {
  const y = Math.round(frame.y(price)) + 0.5;
  return [
    svg("line.grid", { x1: LEFT, x2: frame.width - RIGHT, y1: y, y2: y }),
    svg("text.axis", { x: frame.width - RIGHT + 6, y: y + 4 }, price.toFixed(2)),
  ];
}

function timeLabels(frame) {
  const step = LABEL_MINUTES.find((n) => n * MINUTE_MS * frame.perMs >= LABEL_PX_MIN) ?? LABEL_MINUTES.at(-1);
  const labels = [];
  for (let at = Math.ceil(frame.first / (step * MINUTE_MS)) * step * MINUTE_MS; at < frame.last; at += step * MINUTE_MS) {
    const x = LEFT + (at - frame.first) * frame.perMs;
    if (x > LEFT + 12 && x < frame.width - RIGHT - 12) labels.push(svg("text.axis.middle", { x, y: frame.height - 5 }, minute(at)));
  }
  return labels;
}

const n2 = (value) => value.toFixed(2);

function wickPath(bar, frame) {
  const x = n2(frame.x(bar) + frame.wide / 2);
  const [top, bottom] = [Math.max(bar.open, bar.close), Math.min(bar.open, bar.close)];
  return `M${x} ${n2(frame.y(bar.high))}V${n2(frame.y(top))}M${x} ${n2(frame.y(bottom))}V${n2(frame.y(bar.low))}`;
}

function bodyPath(bar, frame) {
  const inset = Math.max(0.5, frame.wide * 0.16);
  const [y0, y1] = [frame.y(Math.max(bar.open, bar.close)), frame.y(Math.min(bar.open, bar.close))];
  const wide = n2(frame.wide - 2 * inset);
  return `M${n2(frame.x(bar) + inset)} ${n2(y0)}h${wide}v${n2(Math.max(y1 - y0, 0.8))}h-${wide}z`;
}

function volumePath(bar, frame) {
  if (!bar.volume) return "";
  const base = frame.height - BOTTOM;
  return `M${n2(frame.x(bar) + 0.5)} ${n2(base)}V${n2(frame.volumeY(bar.volume))}h${n2(Math.max(frame.wide - 1, 0.5))}V${n2(base)}z`;
}
