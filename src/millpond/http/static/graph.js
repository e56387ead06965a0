// A run's steps as a drawing: from left to right by what they wait for.

import { svg } from "./dom.js";
import { shapeOf, toneOf } from "./marks.js";
import { cut, visible } from "./text.js";

const WIDE = 224;
const HIGH = 56;
const GAP_X = 46;
const GAP_Y = 16;
const EDGE = 6;

export function graph(steps) {
  const depth = depthsOf(steps);
  const places = new Map();
  const filled = [];
  for (const step of steps) {
    const column = depth.get(step.id);
    filled[column] = (filled[column] ?? 0) + 1;
    places.set(step.id, { x: EDGE + column * (WIDE + GAP_X), y: EDGE + (filled[column] - 1) * (HIGH + GAP_Y) });
  }
  const width = Math.max(1, 2 * EDGE + filled.length * (WIDE + GAP_X) - GAP_X);
  const height = 2 * EDGE + Math.max(1, ...filled.map((n) => n ?? 0)) * (HIGH + GAP_Y) - GAP_Y;
  const words = steps.map((step) => `${visible(step.id)} ${visible(step.status)}${after(step)}`).join("; ");
  const box = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": cut(words, 2_000) };
  return svg("svg.graph", box,
    steps.flatMap((step) => step.dependsOn.filter((id) => places.has(id)).map((id) => edge(places.get(id), places.get(step.id)))),
    steps.map((step) => node(step, places.get(step.id))));
}

function after(step) {
  return step.dependsOn.length ? ` after ${step.dependsOn.map(visible).join(", ")}` : "";
}

/** How many steps stand before each; a circle, which no checked run has, ends where it closes. */
function depthsOf(steps) {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const depth = new Map();
  const visit = (id, open) => {
    if (depth.has(id)) return depth.get(id);
    if (open.has(id)) return 0;
    const before = byId.get(id).dependsOn.filter((other) => byId.has(other));
    const found = before.length ? 1 + Math.max(...before.map((other) => visit(other, new Set([...open, id])))) : 0;
    depth.set(id, found);
    return found;
  };
  for (const step of steps) visit(step.id, new Set());
  return depth;
}

function edge(from, end) {
  const [x1, y1, x2, y2] = [from.x + WIDE, from.y + HIGH / 2, end.x, end.y + HIGH / 2];
  const bend = Math.max(16, (x2 - x1) / 2);
  return svg("path.edge", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}m-4 -4l5 4l-5 4` });
}

function node(step, { x, y }) {
  return svg("g.node", { class: toneOf(step.status) },
    svg("title", `${visible(step.id)} (${visible(step.type)}): ${visible(step.status)}`),
    svg("rect", { x, y, width: WIDE, height: HIGH, rx: 6 }),
    svg("svg", { x: x + 9, y: y + 9, width: 16, height: 16, viewBox: "0 0 16 16" }, svg("path.sign", { d: shapeOf(step.status) })),
    svg("text.name", { x: x + 31, y: y + 22 }, cut(visible(step.id), 22)),
    svg("text.what", { x: x + 31, y: y + 41 }, cut(`${visible(step.status)} · ${visible(step.type)}`, 27)));
}
