// The addresses of this page: a hash made of escaped parts, and a query.
//
//     #/letters/health__s2?reason=view_error  →  {page: "letters", parts: ["health__s2"], query: {reason: …}}

export function parseRoute(hash) {
  const [path, search] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  const [page, ...parts] = path.split("/").map(decoded);
  return { page, parts: parts.filter((part) => part !== ""), query: Object.fromEntries(new URLSearchParams(search)) };
}

export function to(page, parts = [], query = {}) {
  const path = [page, ...parts].map((part) => encodeURIComponent(String(part).toWellFormed())).join("/");
  const known = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return `#/${path}${known.length ? `?${new URLSearchParams(known)}` : ""}`;
}

/** A document's page, by its path; an id never holds a slash, and the collection may. */
export function toDocument(path) {
  return to("doc", String(path).split("/"));
}

export function toEvent(id) {
  return to("event", [id]);
}

/** The heading of an alert in the runbook, a page of its own that the same server serves. */
export function toRunbook(alertId) {
  return `runbook#${encodeURIComponent(String(alertId).toWellFormed())}`;
}

function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
