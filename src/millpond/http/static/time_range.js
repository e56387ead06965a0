// The choice of a time range, for every list that can be filtered by time. It is kept in the page's address.

import { html } from "./dom.js";
import { serverNowMs } from "./format.js";

const CUSTOM = "custom";
// An age is sent as it is, so that a bookmarked "last hour" is the hour before it is opened.
const AGES = [["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"]];

/** The fields for `since` and `until` of an address; `onChange` gets what is chosen, null if it is not bounded.
 *
 * `unbounded` is the name of no range at all.
 */
export function timeFields({ since = "", until = "" }, onChange, unbounded = AGES[0][1]) {
  const isCustom = until !== "" || !AGES.some(([age]) => age === since);
  const option = ([value, text]) => html("option", { value, selected: isCustom ? value === CUSTOM : value === since }, text);
  const select = html("select", { id: "time-range", "data-filter": "time" }, [["", unbounded], ...AGES.slice(1), [CUSTOM, "between two times …"]].map(option));
  const from = moment("time-since", "from, UTC", since);
  const to = moment("time-until", "before, UTC", until);
  const bounds = html("div.row.bounds", { hidden: !isCustom }, from.element, to.element);
  let chosen = isCustom ? "" : since;
  select.addEventListener("change", () => {
    bounds.hidden = select.value !== CUSTOM;
    if (select.value === CUSTOM) {
      // The age is still what bounds the list: empty fields beside it would say that nothing does.
      if (chosen && !from.input.value) from.input.value = fieldText(serverNowMs() - ageMs(chosen));
      from.input.focus();
    } else {
      chosen = select.value;
      from.input.value = to.input.value = "";
      onChange({ since: chosen || null, until: null });
    }
  });
  bounds.addEventListener("change", () => onChange({ since: from.time(), until: to.time() }));
  return [html("div.field", html("label", { for: "time-range" }, "time"), select), bounds];
}

function ageMs(age) {
  return Number.parseInt(age, 10) * { m: 60_000, h: 3_600_000, d: 86_400_000 }[age.at(-1)];
}

/** A time as a field of the kind `datetime-local` takes it. */
function fieldText(ms) {
  return new Date(ms).toISOString().slice(0, 19);
}

function moment(id, label, text) {
  // An age or a text that is no time leaves the field empty.
  const at = Date.parse(text);
  const value = Number.isNaN(at) ? "" : fieldText(at);
  const input = html("input", { id, type: "datetime-local", step: "1", value });
  const time = () => (input.value ? new Date(`${input.value}Z`).toISOString() : null);
  return { element: html("div.field", html("label", { for: id }, label), input), input, time };
}
