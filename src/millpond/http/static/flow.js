// Flow runs: a list, and one run as a graph of its steps with what each of them did, and the charts it drew.

import { docsPath, getBlob, getJson, query } from "./api.js";
import { html, own, render } from "./dom.js";
import { age, moment, span } from "./format.js";
import { graph } from "./graph.js";
import { inCollections, keepFresh } from "./live.js";
import { chip } from "./marks.js";
import { pager } from "./pager.js";
import { to, toDocument } from "./routes.js";
import { scrollBox } from "./table.js";
import { said, visible } from "./text.js";
import { tree } from "./tree.js";
import { staleNotice } from "./trouble.js";

const COLLECTION = "flow_runs";
const PAGE = 50;
const STATUSES = ["FAILED", "RUNNING", "READY", "SUCCEEDED"];

export async function show(page, body, [runId]) {
  page.title(runId === undefined ? "Flow runs" : visible(runId));
  const load = runId === undefined ? () => list(page, body) : oneRun(page, body, runId);
  keepFresh({
    signal: page.signal, load,
    touches: runId === undefined ? inCollections(COLLECTION) : (changed) => changed.docs.includes(`${COLLECTION}/${runId}`),
    onError: (error) => !body.querySelector(".notice") && body.prepend(staleNotice(error)),
  });
  await load();
}

async function list(page, body) {
  const { after } = page.route.query;
  const { docs, next } = await getJson(docsPath(COLLECTION) + query({ limit: PAGE, after }), page.signal);
  const cards = docs.map(({ id, data }) => html("li.card", { "data-key": id },
    html("div.head",
      html("h2", html("a", { href: to("models", ["runs", id]) }, said(id, 60))),
      html("span.note", said(data.flowKey ?? "", 40))),
    html("p.counts", summary(stepsOf(data)))));
  render(body, html("section.sheet",
    docs.length
      ? html("ul.board.wide-cards", cards)
      : html("p.note", "None yet. Submit one with ", html("code", "millpond flow submit FILE"), "."),
    pager({ after, next, toPage: (cursor) => to("models", ["runs"], { after: cursor }) })));
}

function oneRun(page, body, runId) {
  const pictures = new Pictures(page.signal);
  return async () => {
    const { data } = await getJson(docsPath(COLLECTION, runId), page.signal);
    const steps = stepsOf(data);
    render(body, html("section.sheet",
      html("div.head", html("h2", said(runId, 80)), html("a", { href: toDocument(`${COLLECTION}/${runId}`) }, "the whole document")),
      html("p.counts", data.flowKey !== undefined && html("span", "flow ", html("b", said(data.flowKey))), summary(steps)),
      scrollBox("Steps as a graph", graph(steps)),
      steps.map((step) => stepSection(step))));
    await pictures.fill(body);
  };
}

/** Steps that can be shown at all; what else stands in `steps` is in the document's page. */
function stepsOf(data) {
  const steps = data.steps && typeof data.steps === "object" && !Array.isArray(data.steps) ? data.steps : {};
  return Object.entries(steps).filter(([, step]) => step && typeof step === "object").map(([id, step]) => ({
    ...step,
    id,
    type: String(step.stepType ?? step.type ?? "no type"),
    status: String(step.status ?? "no status"),
    dependsOn: Array.isArray(step.dependsOn) ? step.dependsOn.map(String) : [],
  })).sort((a, b) => (a.id < b.id ? -1 : 1));
}

function summary(steps) {
  const others = [...new Set(steps.map(({ status }) => status))].filter((status) => !STATUSES.includes(status)).sort();
  return [...STATUSES, ...others].map((status) => [status, steps.filter((step) => step.status === status).length])
    .filter(([, n]) => n).map(([status, n]) => html("span", chip(status, [`${n} `, said(status, 30)])));
}

function stepSection(step) {
  const { claim, error, startedAt, finishedAt } = step;
  const tookS = (Date.parse(finishedAt) - Date.parse(startedAt)) / 1e3;
  const facts = [
    ["type", said(step.type, 60)],
    step.dependsOn.length > 0 && ["waits for", step.dependsOn.map((id, n) => [n > 0 && ", ", said(id, 40)])],
    startedAt && ["started", [moment(startedAt), " (", age(startedAt), ")"]],
    Number.isFinite(tookS) && ["took", span(tookS) === "0 s" ? `${Math.round(tookS * 1e3)} ms` : span(tookS)],
    claim?.attempt !== undefined && ["attempt", String(claim.attempt)],
    step.status === "RUNNING" && claim?.owner && ["worker", said(claim.owner, 60)],
    step.status === "RUNNING" && claim?.leaseUntil && ["lease ends", age(claim.leaseUntil)],
  ].filter(Boolean);
  return html("section.step", { "data-key": step.id },
    html("div.head", html("h3", said(step.id, 80)), chip(step.status, said(step.status, 30))),
    html("dl.facts", facts.map(([name, value]) => html("div", html("dt", name), html("dd", value)))),
    error && html("p.fault", html("b", said(error.code ?? "error")), " ", said(error.message ?? "", 600)),
    step.outputs && html("details", html("summary", "What it returned"), tree(step.outputs)),
    html("div.pictures", imagesOf(step).map(frame)));
}

/** A place for a chart, which `Pictures` fills. */
function frame(path) {
  return own(html("figure", { "data-key": path, "data-picture": path }, caption(path)), path);
}

function caption(path, ...more) {
  return html("figcaption", html("code", said(path, 100)), more);
}

function imagesOf(step) {
  const images = step.outputs?.images;
  return Array.isArray(images) ? images.filter((path) => typeof path === "string" && path.endsWith(".png")).slice(0, 50) : [];
}

/** The charts of a run: fetched once each, with the token, and let go when the page is left. */
class Pictures {
  #signal;
  #urls = [];

  constructor(signal) {
    this.#signal = signal;
    signal.addEventListener("abort", () => this.#urls.forEach((url) => URL.revokeObjectURL(url)));
  }

  async fill(body) {
    for (const figure of body.querySelectorAll("[data-picture]:not(:has(img))")) {
      const path = figure.dataset.picture;
      try {
        const url = URL.createObjectURL(await getBlob(`/api/artifacts/${encodeURIComponent(path)}`, this.#signal));
        this.#urls.push(url);
        figure.replaceChildren(html("img", { src: url, alt: `Chart ${visible(path)}` }), caption(path));
      } catch (error) {
        if (this.#signal.aborted) return;
        figure.replaceChildren(caption(path, " could not be fetched: ", said(error.message)));
      }
    }
  }
}
