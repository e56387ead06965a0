// The filters of events, past and live: time, outcome and topic. They are kept in the page's address.

import { html, own, render } from "./dom.js";
import { live } from "./live.js";
import { OUTCOMES, wordOf } from "./marks.js";
import { parseRoute, to } from "./routes.js";
import { visible } from "./text.js";
import { timeFields } from "./time_range.js";

export function eventFilters(signal) {
  const bar = html("div.filters", { role: "group", "aria-label": "Filters" });
  bar.addEventListener("change", ({ target }) => {
    const name = target.dataset.filter;
    if (name === "outcome" || name === "topic") choose({ [name]: target.value || null });
  });
  const draw = () => render(bar, fields(parseRoute(location.hash).query));
  live.addEventListener("hello", draw, { signal });
  draw();
  return bar;
}

function choose(changed) {
  const { since, until, outcome, topic } = parseRoute(location.hash).query;
  location.hash = to("event", [], { since, until, outcome, topic, ...changed });
}

function fields(chosen) {
  const topics = [...new Set((live.hello?.views ?? []).flatMap(({ topics: some }) => some))].sort();
  const field = (name, values, text) => {
    const known = chosen[name] && !values.includes(chosen[name]) ? [...values, chosen[name]] : values;
    const option = (value) => html("option", { value, selected: chosen[name] === value }, visible(text(value)).slice(0, 60));
    const select = html("select", { id: `tail-${name}`, "data-filter": name }, html("option", { value: "" }, "all"), known.map(option));
    return html("div.field", html("label", { for: `tail-${name}` }, name), select);
  };
  const times = own(html("div.times", timeFields(chosen, choose, "live")), `${chosen.since} ${chosen.until}`);
  return [times, field("outcome", OUTCOMES, wordOf), field("topic", topics, String)];
}
