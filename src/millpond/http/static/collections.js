// Every collection, and the documents of one in pages.

import { docsPath, getJson, query } from "./api.js";
import { html, render } from "./dom.js";
import { whole } from "./format.js";
import { keepFresh } from "./live.js";
import { tabs } from "./models.js";
import { pager } from "./pager.js";
import { to, toDocument } from "./routes.js";
import { scrollBox, tableHead } from "./table.js";
import { cut, mono, said, visible } from "./text.js";
import { timeFields } from "./time_range.js";
import { staleNotice } from "./trouble.js";

const PAGE = 50;
const GLIMPSE_CHARS = 180;

export async function show(page) {
  const collection = page.route.parts.join("/");
  const body = html("div");
  page.title(collection === "" ? "All collections" : visible(collection));
  page.element.append(html("h1", collection === "" ? "All collections" : said(collection, 80)), tabs("docs", page.signal));
  const filters = html("div.filters", { role: "group", "aria-label": "Filters" });
  const drawFilters = () => filters.replaceChildren(...timeFields(page.route.query, (times) => {
    location.hash = to("docs", page.route.parts, times);
  }));
  if (collection !== "") {
    drawFilters();
    page.element.append(filters);
  }
  page.element.append(body);
  const load = collection === "" ? () => all(page, body) : () => one(page, body, collection);
  keepFresh({
    signal: page.signal, load,
    touches: (changed) => changed.docs.some((path) => collection === "" || path.startsWith(`${collection}/`)),
    onError: (error) => !body.querySelector(".notice") && body.prepend(staleNotice(error)),
  });
  await load();
  // Another range or page of the same collection keeps what is shown, and the focus.
  return (route) => {
    if (route.parts.join("/") !== collection) return false;
    const before = page.route.query;
    page.route = route;
    if (!["since", "until"].every((name) => before[name] === route.query[name]) && !filters.contains(document.activeElement)) drawFilters();
    load().catch((error) => page.fail(error));
    return true;
  };
}

async function all(page, body) {
  const { collections } = await getJson("/api/collections", page.signal);
  const rows = collections.map(({ collection, docs }) => html("tr", { "data-key": collection },
    html("th", { scope: "row" }, html("a", { href: to("docs", collection.split("/")) }, mono(collection, 100))),
    html("td.number", whole(docs))));
  const table = html("table.short", tableHead(["collection", "documents"], ["documents"]), html("tbody", rows));
  render(body, html("section.sheet", rows.length ? scrollBox("Collections", table) : html("p.note", "None yet: nothing has arrived.")));
}

async function one(page, body, collection) {
  const asked = page.route.query;
  const { after, since, until } = asked;
  const { docs, next } = await getJson(docsPath(collection) + query({ limit: PAGE, after, since, until }), page.signal);
  if (page.route.query !== asked) return;
  const rows = docs.map(({ id, data }) => html("li", { "data-key": id },
    html("a", { href: toDocument(`${collection}/${id}`) }, mono(id, 120)),
    html("p.glimpse", glimpse(data))));
  render(body, html("section.sheet",
    docs.length ? html("ul.documents", rows) : html("p.note", nothing(asked, next)),
    pager({ after, next, toPage: (cursor) => to("docs", collection.split("/"), { since, until, after: cursor }) })));
}

function nothing({ after, since, until }, next) {
  if (next) return "None of this time among the documents looked at so far: the next page looks further.";
  if (since || until) return "There are no documents of this time.";
  return after ? "There are no more." : "There are no documents in this collection.";
}

/** The first few fields that say something. */
function glimpse(data) {
  if (data.deleted === true) return "deleted";
  const shown = Object.entries(data).filter(([, value]) => value !== null && typeof value !== "object").slice(0, 8);
  return shown.map(([name, value], n) => [
    n > 0 && " · ", html("span.name", cut(visible(name), 40)), " ", said(cut(String(value), GLIMPSE_CHARS), 60),
  ]);
}
