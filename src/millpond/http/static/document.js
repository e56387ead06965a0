// One document: all its fields, where they came from, and the way to the event that made them.

import { answer, docsPath } from "./api.js";
import { copyButton } from "./copy.js";
import { html, render } from "./dom.js";
import { age, moment } from "./format.js";
import { indented } from "./json_text.js";
import { keepFresh } from "./live.js";
import { tabs } from "./models.js";
import { to, toEvent } from "./routes.js";
import { stampParts } from "./stamp.js";
import { mono, said, visible } from "./text.js";
import { tree } from "./tree.js";
import { staleNotice } from "./trouble.js";

export async function show(page) {
  const parts = page.route.parts;
  const collection = parts.slice(0, -1).join("/");
  const id = parts.at(-1) ?? "";
  const body = html("div.columns.document");
  page.title(visible(id));
  page.element.append(
    html("p.crumbs", html("a", { href: to("docs", parts.slice(0, -1)) }, mono(collection, 100))),
    html("div.titled", html("h1", mono(id, 200)), copyButton(`${collection}/${id}`, "the document path")),
      tabs("docs", page.signal), body);
  const load = async () => {
    const text = await (await answer(docsPath(collection, id), { signal: page.signal })).text();
    const { data, version } = JSON.parse(text);
    const { source, ...fields } = data;
    render(body,
      html("div.wide", html("section.sheet",
        html("div.head", html("h2", data.deleted === true ? "Deleted" : "Fields"), html("div.titled", html("span.note", "version ", mono(version, 40)),
            copyButton(indented(dataText(text)), "the document as JSON"))),
        data.deleted === true && html("p", "A tombstone: it stays so that no older event brings the document back."),
        tree(fields))),
      html("div.narrow", html("section.sheet", html("h2", "Where it came from"), provenance(source))));
  };
  keepFresh({
    signal: page.signal, load,
    touches: (changed) => changed.docs.includes(`${collection}/${id}`),
    onError: (error) => (error.status === 404 ? page.fail(error) : !body.querySelector(".notice") && body.prepend(staleNotice(error))),
  });
  await load();
}

/** The document inside the answer, as the server wrote it: parsed numbers of more than 15 digits are not what they were.
 *
 * It is the answer's last field, and inside a JSON text no quotation mark stands without a backslash.
 */
function dataText(answerText) {
  const name = ',"data":';
  return answerText.slice(answerText.indexOf(name) + name.length, -1);
}

function provenance(source) {
  if (!source || typeof source !== "object") return html("p.note", "It has no source: no view wrote it.");
  const known = new Set(["topic", "messageId", "publishedAt", "stamp", "stamps", "key"]);
  const others = Object.fromEntries(Object.entries(source).filter(([name]) => !known.has(name)));
  return [
    html("dl.facts.rows",
      fact("topic", said(source.topic ?? "–")),
      fact("message", source.messageId === undefined ? "–" : [mono(source.messageId, 80), " ", copyButton(source.messageId, "the message id")]),
      fact("published", source.publishedAt ? [moment(source.publishedAt), " UTC, ", age(source.publishedAt)] : "–")),
    source.messageId !== undefined && html("p", html("a.button", { href: toEvent(source.messageId) }, "Show why")),
    Array.isArray(source.stamps)
      ? [html("h3", "Which message gave which fields"), source.stamps.map(fieldsOf)]
      : [html("h3", "Its place in the order"), place(source.stamp)],
    Object.keys(others).length > 0 && [html("h3", "More"), tree(others)],
  ];
}

function fieldsOf(entry) {
  const parts = stampParts(entry?.stamp);
  const message = parts?.at(-1).text;
  const fields = Array.isArray(entry?.fields) ? entry.fields : [];
  return html("details.given", { open: true, "data-key": String(entry?.stamp) },
    html("summary", message === undefined ? "an unreadable stamp" : mono(message, 60)),
    html("p", fields.map((name, n) => [n > 0 && ", ", html("span.name", said(name, 60))])),
    message !== undefined && html("p", html("a", { href: toEvent(message) }, "Why?")),
    place(entry?.stamp));
}

function place(stamp) {
  const parts = stampParts(stamp);
  if (!parts) return html("p.note", "There is no stamp.");
  return html("dl.facts.rows", parts.map(({ name, text }) =>
    fact(name, name === "message id" ? [mono(text, 80), " ", copyButton(text, "the message id")] : mono(text, 80))));
}

function fact(name, value) {
  return html("div", html("dt", name), html("dd", value));
}
