// Preview, replay and purge letters. The selection is fixed at the click, and worked through in chunks.
//
// The work goes on while other pages are looked at; `attach` shows it wherever the letters are shown.

import { postJson } from "./api.js";
import { confirmPurge, confirmReplay } from "./confirm.js";
import { html, render } from "./dom.js";
import { clock, counted, serverNowMs, whole } from "./format.js";
import { changes } from "./preview.js";
import { resultTable, summaryOf } from "./results.js";
import { said } from "./text.js";

const CHUNK = 100;
const RETRY_MS = 1_000;
const TRIES_MAX = 3;

export class Work {
  #job = null;
  #place = null;
  #onDone = () => {};

  /** Show the work in `place` until `signal`; `onDone` is called when the letters have changed. */
  attach(place, signal, onDone) {
    this.#place = place;
    this.#onDone = onDone;
    signal.addEventListener("abort", () => {
      if (this.#place === place) this.#place = null;
    });
    this.#draw();
  }

  async preview(ids) {
    const asked = ids.slice(0, CHUNK);
    await this.#begin({ kind: "preview", verb: "Looking ahead at", ids: asked, left: ids.length - asked.length }, async (job) => {
      job.found = await postJson("/api/letters/preview", { ids: job.ids });
      job.done = job.ids.length;
    });
  }

  async replay(ids) {
    const fixed = Object.freeze([...ids]);
    if (this.#job?.running || !(await confirmReplay(fixed.length))) return;
    await this.#begin({ kind: "replay", verb: "Replaying", ids: fixed, results: [] }, (job) => inChunks(job, async (chunk) => {
      const { results } = await postJson("/api/letters/replay", { ids: chunk });
      job.results.push(...results);
    }, () => this.#draw()));
    this.#onDone();
  }

  /** With `state`, the server keeps letters that are in another state by the time it deletes. */
  async purge(ids, state, onGone) {
    const fixed = Object.freeze([...ids]);
    if (this.#job?.running || !(await confirmPurge(fixed.length, state))) return;
    await this.#begin({ kind: "purge", verb: "Purging", ids: fixed, state, purged: 0, missing: 0 }, (job) => inChunks(job, async (chunk) => {
      const { purged, missing } = await postJson("/api/letters/purge", { ids: chunk, state });
      job.purged += purged.length;
      job.missing += missing.length;
      onGone(chunk);
    }, () => this.#draw()));
    this.#onDone();
  }

  async #begin(fields, run) {
    if (this.#job?.running) return;
    const job = { ...fields, at: clock(serverNowMs()), done: 0, running: true, stopped: false, error: null };
    this.#job = job;
    addEventListener("beforeunload", holdUp);
    this.#draw();
    this.#place?.firstElementChild?.scrollIntoView({ block: "start" });
    try {
      await run(job);
    } catch (error) {
      job.error = error;
    }
    job.running = false;
    removeEventListener("beforeunload", holdUp);
    this.#draw();
  }

  #draw() {
    if (!this.#place) return;
    const job = this.#job;
    if (!job) return render(this.#place);
    const stop = html("button", { type: "button", onclick: () => this.#stop() }, "Stop");
    const close = html("button", { type: "button", onclick: () => this.#close() }, "Close");
    return render(this.#place, html("section.sheet.work", { "aria-label": "Work on letters", "aria-busy": job.running ? "true" : null },
      html("div.head", html("h2", { role: "status" }, headline(job)), job.running ? job.kind !== "preview" && stop : close),
      job.kind === "preview" ? null : [
        html("progress", { max: job.ids.length, value: job.done, "aria-label": "Progress" }),
        html("p.note", `${whole(job.done)} of ${counted(job.ids.length, "letter")}, chosen at ${job.at} UTC: `,
          "what was selected or buried since is not part of it."),
      ],
      job.error && html("p.fault", { role: "alert" }, "It stopped: ", said(job.error.message, 300),
        " What was done stays done; doing it again is harmless."),
      job.kind === "replay" && job.results.length > 0 && [summaryOf(job.results), resultTable(job.results)],
      job.found && changes(job.found, job.left)));
  }

  #stop() {
    if (this.#job) this.#job.stopped = true;
    this.#draw();
  }

  #close() {
    this.#job = null;
    this.#draw();
  }
}

function headline(job) {
  const n = counted(job.ids.length, "letter");
  if (job.running) return job.stopped ? "Stopping after this chunk" : `${job.verb} ${n}`;
  if (job.kind === "preview") return `What replaying ${n} would change`;
  if (job.kind === "purge") {
    const why = job.state ? "were gone already, or in another state" : "were gone already";
    return `Purged ${counted(job.purged, "letter")}${job.missing ? `; ${whole(job.missing)} ${why}` : ""}`;
  }
  return job.done < job.ids.length ? `Replayed ${whole(job.done)} of ${n}, then stopped` : `Replayed ${n}`;
}

/** One chunk after the other; a server that is busy for a moment is asked again. */
async function inChunks(job, send, draw) {
  for (let at = 0; at < job.ids.length && !job.stopped; at += CHUNK) {
    const chunk = job.ids.slice(at, at + CHUNK);
    for (let tries = 1; ; tries += 1) {
      try {
        await send(chunk);
        break;
      } catch (error) {
        if (![0, 429, 503].includes(error.status) || tries >= TRIES_MAX) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS * tries));
      }
    }
    job.done = at + chunk.length;
    draw();
  }
}

function holdUp(event) {
  event.preventDefault();
}
