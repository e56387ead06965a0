// A line without axes, for a number's recent past. Its meaning stands beside it in words.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 28;

/** `points` are numbers, null for what is not known; `fromZero` where the height itself says something. */
export function sparkline(points, { fromZero = false, tone = "" } = {}) {
  const known = points.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  const low = fromZero ? 0 : Math.min(...known);
  const range = Math.max(...known) - low;
  // Where nothing ever changes: in the middle, but for a count of nothing.
  const level = fromZero ? HEIGHT - 3 : HEIGHT / 2;
  let path = "";
  let pen = false;
  points.forEach((value, n) => {
    const there = value !== null && value !== undefined && Number.isFinite(value);
    if (there) {
      const x = points.length > 1 ? (n / (points.length - 1)) * (WIDTH - 4) + 2 : WIDTH / 2;
      const y = range > 0 ? HEIGHT - 3 - ((value - low) / range) * (HEIGHT - 6) : level;
      path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${pen ? "" : "h.01"}`;
    }
    pen = there;
  });
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", class: tone };
  return svg("svg.sparkline", box, known.length > 0 && svg("path", { d: path }));
}
