// Requests to the server: the token, and failures as one kind of error. Nothing here knows a page.

import { BASE, askForToken, token } from "./session.js";

/** `status` is 0 if no answer came. */
export class ApiError extends Error {
  constructor(status, reason, text) {
    super(text);
    this.status = status;
    this.reason = reason;
  }
}

export async function getJson(path, signal) {
  return (await answer(path, { signal })).json();
}

export async function postJson(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return (await answer(path, { method: "POST", body: JSON.stringify(body), headers, signal })).json();
}

export async function getBlob(path, signal) {
  return (await answer(path, { signal })).blob();
}

/** The answer to a request that succeeded; asks for a token as often as the server does. */
export async function answer(path, options = {}) {
  for (;;) {
    const sent = token();
    const response = await send(path, options, sent);
    if (response.ok) return response;
    if (response.status !== 401 || !(await askForToken(sent))) throw await failure(response);
  }
}

async function send(path, options, sent) {
  const headers = { ...options.headers, ...(sent === null ? {} : { authorization: `Bearer ${sent}` }) };
  try {
    return await fetch(BASE + path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "offline", "The server does not answer.");
  }
}

/** A module of this page, fetched when it is first needed: it may fail as any other request. */
export async function loaded(load) {
  try {
    return await load();
  } catch (error) {
    if (error instanceof TypeError) throw new ApiError(0, "offline", "The server does not answer.");
    throw error;
  }
}

async function failure(response) {
  try {
    const { reason, error } = await response.json();
    return new ApiError(response.status, String(reason), String(error));
  } catch {
    return new ApiError(response.status, `status ${response.status}`, "The answer is not one of Millpond’s.");
  }
}

/** `/api/docs/…` of a collection, or of a document in it. */
export function docsPath(collection, id) {
  const path = `/api/docs/${encodeURIComponent(collection)}`;
  return id === undefined ? path : `${path}/${encodeURIComponent(id)}`;
}

/** A query string of what is there; lists are repeated. */
export function query(parameters) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) found.append(name, one);
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}
