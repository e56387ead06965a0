// The choice of a time range, for every list that can be filtered by time. It is kept in the page's address.

import { html } from "./dom.js";

const CUSTOM = "custom";
// An age is sent as it is, so that a bookmarked "last hour" is the hour before it is opened.
const AGES = [["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"]];

/** The fields for `since` and `until` of an address; `onChange` gets what is chosen, null if it is not bounded.
 *
 * `unbounded` is the name of no range at all. With `stays`, the caller keeps these fields when they choose, so that two
 * times that are still empty can lift the bound before.
 */
export function timeFields({ since = "", until = "" }, onChange, unbounded = AGES[0][1], stays = false) {
  const isCustom = until !== "" || !AGES.some(([age]) => age === since);
  const option = ([value, text]) => html("option", { value, selected: isCustom ? value === CUSTOM : value === since }, text);
  const select = html("select", { id: "time-range", "data-filter": "time" }, [["", unbounded], ...AGES.slice(1), [CUSTOM, "between two times …"]].map(option));
  const from = moment("time-since", "from, UTC", since);
  const to = moment("time-until", "before, UTC", until);
  const bounds = html("div.row.bounds", { hidden: !isCustom }, from.element, to.element);
  select.addEventListener("change", () => {
    bounds.hidden = select.value !== CUSTOM;
    if (select.value === CUSTOM) {
      from.input.focus();
      if (stays) onChange({ since: from.time(), until: to.time() });
    } else onChange({ since: select.value || null, until: null });
  });
  bounds.addEventListener("change", () => onChange({ since: from.time(), until: to.time() }));
  return [html("div.field", html("label", { for: "time-range" }, "time"), select), bounds];
}

function moment(id, label, text) {
  // An age or a text that is no time leaves the field empty.
  const at = Date.parse(text);
  const value = Number.isNaN(at) ? "" : new Date(at).toISOString().slice(0, 19);
  const input = html("input", { id, type: "datetime-local", step: "1", value });
  const time = () => (input.value ? new Date(`${input.value}Z`).toISOString() : null);
  return { element: html("div.field", html("label", { for: id }, label), input), input, time };
}
