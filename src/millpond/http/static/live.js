// The one stream of this page: what the server reports, kept up to date and passed on as DOM events.
//
// Events of `live`: `state`, `hello`, `sample`, `alerts`, `totals`, `changed`. The stream is closed while the tab is
// hidden, and opened again, with everything it missed, when it is shown.

import { ApiError } from "./api.js";
import { setServerNow } from "./format.js";
import { append, emptySeries, seriesOf } from "./series.js";
import { eventsOf } from "./stream.js";

const RETRY_MAX_S = 10;
const SECOND_MS = 1_000;
const REFRESH_MS = 15_000;
/** How old the server's groups of letters may be. */
export const GROUPS_LAG_MS = 2_500;

class Live extends EventTarget {
  state = "connecting";
  since = Date.now();
  hello = null;
  series = emptySeries();
  alerts = null;
  totals = null;
  #stop = null;

  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.#open()));
    if (!document.hidden) this.#open();
  }

  /** A newer count of the letters than the last totals had. */
  noteLetters(letters) {
    if (this.totals && this.totals.letters !== letters) this.#take("totals", { ...this.totals, letters });
  }

  /** Try at once what would be tried in a while. */
  reopen() {
    if (this.state === "live") return;
    this.#stop?.abort();
    this.#stop = null;
    if (!document.hidden) this.#open();
  }

  #open() {
    if (this.#stop) return;
    this.#stop = new AbortController();
    this.#run(this.#stop.signal);
  }

  #pause() {
    this.#stop?.abort();
    this.#stop = null;
    this.#become("paused");
  }

  async #run(signal) {
    for (let waitS = 1; !signal.aborted; waitS = Math.min(waitS + 1, RETRY_MAX_S)) {
      let refused = null;
      try {
        for await (const { kind, data } of eventsOf("/api/live", signal)) {
          if (signal.aborted) return;
          if (kind === "hello") waitS = 1;
          this.#take(kind, data);
        }
      } catch (error) {
        refused = error instanceof ApiError && error.status !== 0 ? error : null;
      }
      if (signal.aborted) return;
      this.#become(refused ? "refused" : "reconnecting", refused);
      await pause(waitS * SECOND_MS, signal);
    }
  }

  #take(kind, data) {
    if (kind === "hello") {
      setServerNow(data.now);
      this.series = seriesOf(data.history);
      this.hello = { ...data, history: null };
      this.#become("live");
    } else if (kind === "sample") append(this.series, data);
    else if (kind === "alerts") this.alerts = data.alerts;
    else if (kind === "totals") this.totals = data;
    this.dispatchEvent(new CustomEvent(kind, { detail: data }));
  }

  #become(state, error = null) {
    this.error = error;
    if (state !== this.state) this.since = Date.now();
    this.state = state;
    this.dispatchEvent(new CustomEvent("state"));
  }
}

export const live = new Live();

/** Call `load` when something it shows has changed, once a second at most, and every 15 s; never two at once.
 *
 * `touches(changed)` says whether a change matters. If the server's answer may lag behind a change by `lagMs`, it is
 * asked once more after that. Nothing is loaded while the tab is hidden. The first load is the caller's, as is its
 * failure; later ones are passed to `onError`.
 */
export function keepFresh({ signal, touches, load, onError, lagMs = 0 }) {
  let lastMs = Date.now();
  let timer = null;
  let lagging = null;
  let loading = false;
  let missed = false;

  function soon() {
    if (signal.aborted) return;
    if (loading) missed = true;
    else timer ??= setTimeout(reload, Math.max(0, lastMs + SECOND_MS - Date.now()));
  }

  async function reload() {
    timer = null;
    if (signal.aborted || document.hidden) return;
    [loading, missed] = [true, false];
    try {
      await load();
    } catch (error) {
      if (!signal.aborted) onError(error);
    }
    loading = false;
    lastMs = Date.now();
    if (missed) soon();
  }

  live.addEventListener("changed", ({ detail }) => {
    if (!detail.more && !touches(detail)) return;
    soon();
    clearTimeout(lagging);
    if (lagMs) lagging = setTimeout(soon, lagMs);
  }, { signal });
  // The changes during an interruption are unknown.
  live.addEventListener("hello", soon, { signal });
  const beat = setInterval(() => Date.now() - lastMs >= REFRESH_MS && soon(), SECOND_MS);
  signal.addEventListener("abort", () => {
    clearInterval(beat);
    clearTimeout(timer);
    clearTimeout(lagging);
  });
  return soon;
}

/** Whether a change is about a document of one of these collections. */
export function inCollections(...names) {
  return (changed) => changed.docs.some((path) => names.some((name) => path.startsWith(`${name}/`)));
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
