// The dead letters: groups, filters, one page of the list, the open one.

import { getJson, query } from "./api.js";
import { html, own, render } from "./dom.js";
import { counted, whole } from "./format.js";
import { isTyping } from "./keys.js";
import { GROUPS_LAG_MS, keepFresh, live } from "./live.js";
import { openLetter, refreshLetter } from "./letter.js";
import { letterRows } from "./letter_rows.js";
import { Work } from "./letter_work.js";
import { pager } from "./pager.js";
import { countIn, STATES, withState } from "./replay_state.js";
import { parseRoute, to } from "./routes.js";
import { Selection } from "./selection.js";
import { scrollBox, tableHead } from "./table.js";
import { said, visible } from "./text.js";
import { timeFields } from "./time_range.js";
import { staleNotice } from "./trouble.js";

const PAGE = 50;
const FILTERS = ["reason", "view", "topic", "state", "since", "until"];
// They outlive a visit to another page: work goes on, and what was selected stays so.
const selection = new Selection();
const work = new Work();

export async function show(page) {
  const letters = new Letters(page);
  page.title("Dead letters");
  await letters.start();
  return (route) => letters.reroute(route);
}

class Letters {
  #page;
  #route;
  #groups = { total: 0, groups: [] };
  #list = { letters: [], next: null };
  #parts = {
    groups: html("section.sheet.letter-groups"),
    list: html("div"),
    bar: html("div.selection-bar", { role: "group", "aria-label": "Selected letters" }),
    open: html("div.open-letter"),
    work: html("div"),
    notices: html("div"),
  };
  #reload;

  constructor(page) {
    this.#page = page;
    this.#route = { ...page.route, query: withState(page.route.query) };
  }

  async start() {
    const { signal, element } = this.#page;
    const { groups, list, bar, open, work: workPlace, notices } = this.#parts;
    element.append(html("h1", "Dead letters"),
      html("p.lead", "Messages that can never succeed, kept whole. Mend the cause or correct the payload, replay, then purge."),
      notices, workPlace, groups, html("div.columns.letters", html("section.sheet.wide.letter-list", list, bar), open));
    list.addEventListener("click", (event) => event.target.matches("input[type=checkbox]") && this.#tick(event.target, event.shiftKey));
    document.addEventListener("keydown", (event) => this.#key(event), { signal });
    selection.addEventListener("change", () => this.#drawSelection(), { signal });
    work.attach(workPlace, signal, () => this.#reload());
    this.#reload = keepFresh({
      signal, load: () => Promise.all([this.#load(), this.#refreshOpen()]),
      touches: (changed) => changed.letters, lagMs: GROUPS_LAG_MS,
      onError: (error) => render(notices, staleNotice(error)),
    });
    await this.#load();
    await this.#showOpen();
  }

  reroute(address) {
    const before = this.#route;
    const route = { ...address, query: withState(address.query) };
    this.#route = route;
    this.#draw();
    const sameList = FILTERS.concat("after").every((name) => before.query[name] === route.query[name]);
    if (!sameList) this.#load().catch((error) => this.#page.fail(error));
    if (before.parts[0] !== route.parts[0]) this.#showOpen();
    return true;
  }

  #filters() {
    return Object.fromEntries(FILTERS.map((name) => [name, this.#route.query[name]]));
  }

  async #load() {
    const route = this.#route;
    const asked = query({ ...this.#filters(), limit: PAGE, after: route.query.after });
    const { signal } = this.#page;
    const [groups, list] = await Promise.all([getJson("/api/letters/groups", signal), getJson(`/api/letters${asked}`, signal)]);
    if (route !== this.#route && query({ ...this.#filters(), limit: PAGE, after: this.#route.query.after }) !== asked) return;
    [this.#groups, this.#list] = [groups, list];
    live.noteLetters(groups.total);
    render(this.#parts.notices);
    this.#draw();
  }

  #draw() {
    const { groups, list } = this.#parts;
    render(groups, groupTable(this.#groups, this.#route.query));
    const href = (id) => to("letters", [id], this.#route.query);
    const toPage = (after) => to("letters", [], { ...this.#route.query, after });
    render(list, filterBar(this.#groups.groups, this.#route.query),
      letterRows(this.#list.letters, selection, this.#route.parts[0], href),
      pager({ after: this.#route.query.after, next: this.#list.next, toPage }));
    this.#drawSelection();
  }

  #drawSelection() {
    for (const box of this.#parts.list.querySelectorAll("input[data-id]")) box.checked = selection.has(box.dataset.id);
    const everything = this.#parts.list.querySelector("#select-page");
    if (everything) {
      const n = this.#list.letters.filter(({ id }) => selection.has(id)).length;
      everything.checked = n > 0 && n === this.#list.letters.length;
      everything.indeterminate = n > 0 && !everything.checked;
    }
    this.#parts.bar.classList.toggle("holds", selection.size > 0);
    render(this.#parts.bar, ...this.#barContent());
  }

  #barContent() {
    const n = selection.size;
    const matching = matchingCount(this.#groups.groups, this.#route.query);
    const { since, until } = this.#route.query;
    // The groups count letters of all times.
    const [all, isNone] = since || until
      ? ["Select all matching", this.#list.letters.length === 0] : [matching === 1 ? "Select the 1 matching" : `Select all ${whole(matching)} matching`, matching === 0];
    const button = (text, onclick, kind = "", disabled = n === 0) =>
      html("button", { type: "button", class: kind, onclick, disabled }, text);
    const everything = () => this.#selectAll();
    return [html("strong", n ? `${whole(n)} selected` : "None selected"),
      button(all, everything, "", isNone),
      button("Clear", () => selection.clear()), html("span.spring"),
      button("What would replay change?", () => work.preview(selection.ids())),
      button("Replay…", () => work.replay(selection.ids()), "primary"),
      button("Purge…", () => work.purge(selection.ids(), this.#route.query.state, (gone) => selection.remove(gone)), "danger")];
  }

  async #selectAll() {
    try {
      const { ids, more } = await getJson(`/api/letters/ids${query(this.#filters())}`, this.#page.signal);
      selection.add(ids);
      render(this.#parts.notices, more && html("p.notice", `There are more: the first ${counted(ids.length, "letter")} were selected.`));
    } catch (error) {
      if (!this.#page.signal.aborted) render(this.#parts.notices, staleNotice(error));
    }
  }

  #tick(box, isRange) {
    const ids = this.#list.letters.map(({ id }) => id);
    if (box.id === "select-page") selection.set(ids, box.checked);
    else selection.tick(box.dataset.id, isRange ? ids : null, box.checked);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const inList = this.#parts.list.contains(event.target);
    const step = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[event.key];
    const links = [...this.#parts.list.querySelectorAll("a[data-id]")];
    const row = event.target.closest?.("tr[data-key]");
    const at = links.findIndex((link) => row?.contains(link));
    if (step !== undefined && links.length) {
      event.preventDefault();
      links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
    } else if (event.key.toLowerCase() === "x" && at >= 0) {
      const id = links[at].dataset.id;
      selection.tick(id, event.shiftKey ? this.#list.letters.map((letter) => letter.id) : null, event.shiftKey ? true : undefined);
    }
  }

  async #showOpen() {
    const id = this.#route.parts[0];
    const { open } = this.#parts;
    open.parentElement.classList.toggle("has-open", id !== undefined);
    if (id === undefined) return open.replaceChildren();
    const back = to("letters", [], this.#route.query);
    return openLetter(open, id, { back, work, signal: this.#page.signal });
  }

  /** A replay or another person's correction changes the open letter; what is being edited here stays as it is. */
  async #refreshOpen() {
    const id = this.#route.parts[0];
    const { open } = this.#parts;
    const mayReplace = () => id === this.#route.parts[0] && !open.querySelector("form.edit");
    if (id === undefined || !mayReplace()) return;
    const back = to("letters", [], this.#route.query);
    await refreshLetter(open, id, { back, work, signal: this.#page.signal, mayReplace });
  }
}

function groupTable({ total, groups }, chosen) {
  if (!total) return html("p.note", "There are none. Nothing is stuck.");
  const rows = groups.slice(0, 100).map((group) => {
    const filter = { reason: group.reason, view: group.view ?? "", topic: group.topic ?? "" };
    const isChosen = ["reason", "view", "topic"].every((name) => chosen[name] === filter[name]);
    const link = html("a", { href: to("letters", [], { ...filter, since: chosen.since, until: chosen.until }), "aria-current": isChosen ? "true" : null }, said(group.reason, 60));
    return html("tr", { class: isChosen ? "chosen" : null },
      html("th", { scope: "row" }, link),
      html("td", group.view === null ? html("span.note", "–") : said(group.view, 60)),
      html("td", group.topic ? said(group.topic, 60) : html("span.note", "none found")),
      html("td.number", whole(group.letters)), html("td.number", whole(group.replayed)), html("td.number", whole(group.failed)));
  });
  const counts = ["letters", "replayed", "failed"];
  const head = tableHead(["reason", "view", "topic", ...counts], counts);
  return [html("div.head", html("h2", counted(total, "letter")), html("a", { href: to("letters") }, "all")),
    html("div.low", scrollBox("Groups of letters", html("table", head, html("tbody", rows))))];
}

function filterBar(groups, chosen) {
  const values = (name) => [...new Set(groups.map((group) => group[name] ?? ""))].sort();
  const field = (name, options) => {
    const isListed = chosen[name] === undefined || options.some(([value]) => value === chosen[name]);
    const known = isListed ? options : [...options, [chosen[name], chosen[name]]];
    const option = ([value, text]) =>
      html("option", { value: `=${value}`, selected: chosen[name] === value }, visible(text).slice(0, 60) || "none");
    const select = html("select", { id: `filter-${name}`, "data-filter": name, onchange: choose },
      html("option", { value: "*" }, "all"), known.map(option));
    return html("div.field", html("label", { for: `filter-${name}` }, name), select);
  };
  const times = own(html("div.times", timeFields(chosen, chooseTimes)), `${chosen.since} ${chosen.until}`);
  return html("div.filters", { role: "group", "aria-label": "Filters" }, times,
    ["reason", "view", "topic"].map((name) => field(name, values(name).map((value) => [value, value]))),
    field("state", Object.entries(STATES)));
}

function choose(event) {
  const { since, until } = parseRoute(location.hash).query;
  const found = { since, until };
  for (const select of event.target.closest(".filters").querySelectorAll("select[id^=filter-]")) {
    found[select.dataset.filter] = select.value === "*" ? null : select.value.slice(1);
  }
  location.hash = to("letters", [], found);
}

function chooseTimes({ since, until }) {
  const { reason, view, topic, state } = withState(parseRoute(location.hash).query);
  location.hash = to("letters", [], { reason, view, topic, state, since, until });
}

function matchingCount(groups, chosen) {
  const has = (text, wanted) => text === wanted || (wanted && text.split(", ").includes(wanted));
  const fits = (group) => ["reason", "view", "topic"].every((name) => chosen[name] === undefined || has(group[name] ?? "", chosen[name]));
  return groups.filter(fits).reduce((n, group) => n + countIn(group, chosen.state), 0);
}
