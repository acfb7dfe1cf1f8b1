// Requests to the API: bearer token, problem documents, and the loss of the server.

import { requestToken } from "./token.js";

const KEY = "orbweaver-token";
const TIMEOUT_MS = 30_000;

/** An answer that is no success. `status` is 0 if there was none. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`);
    this.status = status;
    this.title = document.title || `HTTP ${status}`;
    this.kind = String(document.type ?? "").replace("urn:orbweaver:problem:", "");
    this.part = document.part ?? null;
    this.allowed = document.allowed ?? null;
  }
}

/** Path of the API with its parameters; those without a value are left out. */
export function path(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${name}?${new URLSearchParams(given)}` : name;
}

function withToken(headers, token) {
  return token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
}

async function problemOf(response) {
  try {
    return new Problem(response.status, await response.json());
  } catch {
    return new Problem(response.status, { title: `The server answered with HTTP ${response.status}` });
  }
}

/** Sends a request, and requests the token once for each 401. A stream has no timeout. */
export async function send(target, { method = "GET", body, signal, stream = false } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const limits = [signal, stream ? null : AbortSignal.timeout(TIMEOUT_MS)].filter(Boolean);
  for (;;) {
    const used = sessionStorage.getItem(KEY);
    let response;
    try {
      response = await fetch(target, {
        method,
        headers: withToken(headers, used),
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.any(limits),
        cache: stream ? "no-store" : "default",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      const slow = error.name === "TimeoutError";
      throw new Problem(0, { type: "unreachable", title: slow ? "The server did not answer in time" : "The server cannot be reached" });
    }
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401) throw problem;
    // Another request may have got a token meanwhile.
    if (sessionStorage.getItem(KEY) !== used) continue;
    const token = await requestToken(used !== null);
    if (token === null) throw problem;
    sessionStorage.setItem(KEY, token);
  }
}

/** Answer of a `GET` as JSON. */
export async function get(target, signal) {
  return (await send(target, { signal })).json();
}

/** Sends JSON, and returns the answer. */
export async function write(method, target, body) {
  const text = await (await send(target, { method, body })).text();
  return text ? JSON.parse(text) : {};
}
