// The frame around every page: the header's state, the search, and the keys that work everywhere.

import { ApiError, loaded } from "./api.js";
import { html, render } from "./dom.js";
import { brief, keepAgesCounting, whole } from "./format.js";
import { showKeys, watchKeys } from "./keys.js";
import { live } from "./live.js";
import { mark } from "./marks.js";
import { parseRoute, to } from "./routes.js";
import { mayAskAgain } from "./session.js";
import { visible } from "./text.js";
import { troublePage } from "./trouble.js";
import { verdictOf } from "./verdict.js";

// Loaded when they are first needed, but for the first.
const PAGES = {
  "": () => import("./overview.js"),
  models: () => import("./models.js"),
  docs: () => import("./collections.js"),
  doc: () => import("./document.js"),
  letters: () => import("./letters.js"),
  event: () => import("./event.js"),
  search: () => import("./search.js"),
};
const SECTION = { "": "overview", docs: "models", doc: "models" };
const main = document.getElementById("main");
let shown = null;

async function route() {
  const found = parseRoute(location.hash);
  if (shown?.page === found.page && shown.reroute?.(found)) return;
  const isFirst = shown === null;
  shown?.controller.abort();
  const controller = new AbortController();
  const current = { page: found.page, controller, reroute: null };
  shown = current;
  markSection(found.page);
  main.setAttribute("aria-busy", "true");
  const element = html("div.page");
  const page = {
    element,
    route: found,
    signal: controller.signal,
    title: (text) => setTitle(text),
    fail: (error) => shown === current && showTrouble(element, error),
  };
  try {
    if (!Object.hasOwn(PAGES, found.page)) throw new ApiError(404, "not_found", "There is no such page.");
    const module = await loaded(PAGES[found.page]);
    if (controller.signal.aborted) return;
    main.replaceChildren(element);
    current.reroute = (await module.show(page)) ?? null;
  } catch (error) {
    if (controller.signal.aborted) return;
    main.replaceChildren(element);
    showTrouble(element, error);
  }
  main.removeAttribute("aria-busy");
  scrollTo(0, 0);
  if (!isFirst) focusHeading();
}

function showTrouble(element, error) {
  render(element, troublePage(error, again));
  setTitle("Trouble");
}

function again() {
  mayAskAgain();
  live.reopen();
  shown?.controller.abort();
  shown = null;
  route();
}

function focusHeading() {
  const heading = main.querySelector("h1");
  if (!heading || document.querySelector("dialog[open]")) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

function markSection(page) {
  const section = SECTION[page] ?? page;
  for (const link of document.querySelectorAll(".main-nav a")) {
    if (link.dataset.page === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let pageTitle = "";

function setTitle(text) {
  pageTitle = text;
  const { word } = verdictOf(live);
  document.title = [pageTitle, word, "Millpond"].filter(Boolean).join(" · ");
}

const STREAM = { live: ["ok", "live"], refused: ["critical", "refused"], paused: ["unseen", "paused"] };
const announcer = document.getElementById("announcer");
let announced = null;

function showState() {
  const [tone, word] = STREAM[live.state] ?? ["warning", live.state];
  render(document.getElementById("stream"), mark(tone), word);
  const { level, text } = verdictOf(live);
  document.body.dataset.level = level;
  if (announced !== null && announced !== text) announcer.textContent = visible(text);
  announced = text;
  setTitle(pageTitle);
}

function showHello() {
  const env = document.getElementById("env");
  env.hidden = false;
  env.textContent = visible(live.hello.env);
  env.classList.toggle("is-prod", /^prod/i.test(live.hello.env));
  env.title = `${live.hello.env}: Millpond ${live.hello.version}, store ${live.hello.store}`;
}

function showTotals() {
  const count = document.getElementById("letters-count");
  count.hidden = live.totals.letters === 0;
  count.textContent = brief(live.totals.letters);
  count.title = whole(live.totals.letters);
}

function search(event) {
  event.preventDefault();
  const q = new FormData(event.target).get("id").trim();
  if (!q) return;
  const place = to("search", [], { q });
  if (location.hash === place) route();
  else location.hash = place;
}

// The skip link must not change the address: it focuses the content of the page that is shown.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("search").addEventListener("submit", search);
document.getElementById("keys").addEventListener("click", showKeys);
watchKeys();
addEventListener("hashchange", route);
live.addEventListener("state", showState);
live.addEventListener("alerts", showState);
live.addEventListener("hello", showHello);
live.addEventListener("totals", showTotals);
keepAgesCounting();
showState();
live.start();
route();
