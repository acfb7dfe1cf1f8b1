// Life of a URL: found, fetched, archived; newest first.

import { el, urlLink } from "./dom.js";
import { bytes, count, time } from "./format.js";
import { outcomeText, statusBadge } from "./views.js";

/** Entries in the order of time, newest first; a fetch has its captures. */
export function entriesOf(state, { events }, { captures }) {
  const fetches = events.map((event) => ({ at: event.at, event, captures: captures.filter(({ at }) => at === event.at) }));
  const fetched = new Set(events.map(({ at }) => at));
  const others = captures.filter(({ at }) => !fetched.has(at)).map((capture) => ({ at: capture.at, event: null, captures: [capture] }));
  return [...fetches, ...others].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
}

function captureText(capture) {
  return el(
    "div",
    { class: "capture" },
    el("span", { class: "muted" }, capture.is_revisit ? "archived as a revisit: " : "archived: "),
    el("code", null, capture.file),
    el("span", { class: "muted tabular" }, ` offset ${count(capture.offset)}, ${bytes(capture.length)}`),
  );
}

function fetchItem({ at, event, captures }, before) {
  const hash = event?.content_hash;
  const isChanged = hash && before?.content_hash && hash !== before.content_hash;
  return el(
    "li",
    null,
    el("time", { datetime: at, class: "tabular" }, time(at)),
    el(
      "div",
      null,
      event && el("div", { class: "event" }, statusBadge(event.status), el("span", null, outcomeText(event.outcome, event.reason)), event.bytes > 0 && el("span", { class: "muted tabular" }, bytes(event.bytes)), isChanged && el("span", { class: "note-changed" }, "content changed")),
      captures.map(captureText),
    ),
  );
}

function foundItem(state) {
  const where = state.via ? ["found on ", urlLink(state.via)] : ["a seed, or found without a page"];
  return el("li", null, el("span", { class: "muted" }, "before"), el("div", null, ...where, el("span", { class: "muted" }, `, depth ${state.depth}`)));
}

/** List of all that happened to a URL. */
export function timeline(state, history, captures) {
  const entries = entriesOf(state, history, captures);
  const olderHash = (index) => entries.slice(index + 1).find(({ event }) => event?.content_hash)?.event;
  const more = (history.more || captures.more) && el("li", null, el("span"), el("div", { class: "muted" }, "Older ones are not shown."));
  const items = entries.map((entry, index) => fetchItem(entry, olderHash(index)));
  if (items.length === 0 && !state) return el("p", null, "Nothing has happened yet.");
  return el("ol", { class: "timeline" }, items, more, state && foundItem(state));
}
