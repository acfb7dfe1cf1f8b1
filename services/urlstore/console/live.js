// The state of the crawl, from the stream of events: opened again with a growing delay, and with the age of its last
// event.

import { get, Problem, send } from "./api.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const POINTS = 300;
const MAX_EVENT_CHARS = 4 << 20;
/** Age in seconds from which figures are shown as old. */
export const STALE_SECONDS = 5;

/** State that all pages read. `connection`: "connecting", "live", "lost", "locked", "unavailable" or "ended". */
export const live = { crawl: null, history: [], connection: "connecting", error: null, received: 0, retryAt: 0 };

const changes = new EventTarget();

/** Calls back after each change until the signal is aborted. */
export function onChange(callback, signal) {
  changes.addEventListener("change", callback, { signal });
}

function changed(update) {
  Object.assign(live, update);
  changes.dispatchEvent(new Event("change"));
}

/** Seconds since the last event. */
export function age() {
  return live.received ? (performance.now() - live.received) / 1000 : 0;
}

/** Whether the crawl allows an action. */
export function allows(action) {
  return live.connection === "live" && (live.crawl?.actions ?? []).includes(action);
}

/** Whether the settings of sites can be changed: as long as any action is possible. */
export function isChangeable() {
  return live.connection === "live" && (live.crawl?.actions ?? []).length > 0;
}

/** Resolves once there is a state, or it is known that there is none for now. */
export function settled() {
  if (live.connection !== "connecting") return Promise.resolve();
  return new Promise((resolve) => changes.addEventListener("change", resolve, { once: true }));
}

/** Name of the crawl as a parameter of the API; null for the default one. */
export async function crawlName() {
  await settled();
  const name = live.crawl?.crawl;
  return name === "default" ? null : name;
}

/** Takes an event; the history has one point per second. */
function take(crawl) {
  const at = Math.floor(Date.parse(crawl.now) / 1000);
  const point = [at, crawl.urls?.fetched ?? 0, crawl.queued ?? 0];
  let history = live.history;
  if (Array.isArray(crawl.history)) history = crawl.history;
  if (crawl.state !== "ended" && !(history.at(-1)?.[0] >= at)) history = [...history, point].slice(-POINTS);
  changed({ crawl, history, connection: "live", error: null, received: performance.now() });
}

/** Event of a block of lines; null if it has no data for this page. */
export function parseEvent(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return name === "crawl" && data.length ? JSON.parse(data.join("\n")) : null;
}

async function readStream() {
  const response = await send("/v1/crawl/events", { stream: true });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop();
    if (text.length > MAX_EVENT_CHARS) throw new Error("an event of the stream is too long");
    for (const crawl of blocks.map(parseEvent)) if (crawl) take(crawl);
  }
}

/** Opens the stream, after the history, until the crawl has ended. */
async function once() {
  take(await get("/v1/crawl"));
  if (live.crawl.state !== "ended") await readStream();
}

/** Follows the crawl until it has ended, for as long as the page is open. */
export async function follow() {
  let delay = FIRST_DELAY_MS;
  for (;;) {
    const before = live.received;
    let error = null;
    try {
      await once();
    } catch (problem) {
      error = problem;
    }
    if (live.crawl?.state === "ended") return changed({ connection: "ended" });
    if (error instanceof Problem && error.status === 401) return changed({ connection: "locked", error });
    if (error instanceof Problem && error.status === 404) return changed({ connection: "unavailable", error });
    delay = live.received === before ? Math.min(delay * 2, LONGEST_DELAY_MS) : FIRST_DELAY_MS;
    // A stream that ends without an error has reached its time limit: figures stay live.
    if (error) changed({ connection: "lost", error, retryAt: performance.now() + delay });
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
}
