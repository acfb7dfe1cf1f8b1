// State of the crawl and of the stream in the header, and the banner for all that keeps figures from being current.

import { announce, el, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { age, live, onChange, STALE_SECONDS } from "./live.js";

const STATES = { running: "Running", paused: "Paused", stopping: "Stopping", ended: "Ended" };
const byId = (id) => document.getElementById(id);
let announced = null;

/** Whether figures are older than they should be. */
function isStale() {
  return live.connection === "lost" || (live.connection === "live" && age() > STALE_SECONDS);
}

function streamState() {
  if (live.connection === "ended") return ["ended", ""];
  if (live.connection === "locked") return ["lost", "locked"];
  if (live.connection === "connecting") return ["connecting", ""];
  if (live.connection === "unavailable") return ["ended", ""];
  if (!isStale()) return ["live", "live"];
  return ["lost", live.received ? `${duration(age())} old` : "no data"];
}

function bannerText() {
  if (live.connection === "locked") return "The API requires a token, and none was given.";
  if (live.connection === "unavailable") return "This server has no figures of a crawl. URLs and pages can be looked up.";
  if (!isStale()) return "";
  const wait = Math.max(0, Math.ceil((live.retryAt - performance.now()) / 1000));
  const next = live.connection === "lost" ? ` Next attempt in ${wait} s.` : "";
  if (!live.received) return `The server cannot be reached.${next}`;
  return `No new figures for ${duration(age())}: the server does not answer, or has ended.${next}`;
}

function drawBanner() {
  const banner = byId("banner");
  const text = bannerText();
  banner.hidden = text === "";
  const kind = live.connection;
  if (banner.dataset.kind !== kind) {
    banner.dataset.kind = kind;
    const reload = el("button", { type: "button", onclick: () => location.reload() }, "Enter the token");
    // The text has an age that changes each second: screen readers get it once, from the announcements.
    banner.replaceChildren(el("span", { class: "banner-text" }), ...(kind === "locked" ? [reload] : []));
  }
  setText(banner.querySelector(".banner-text"), text);
}

function draw() {
  const { crawl } = live;
  const state = crawl?.state;
  const [stream, text] = streamState();
  setText(byId("crawl-name"), crawl?.name ?? "");
  setText(byId("crawl-state"), STATES[state] ?? (live.connection === "connecting" ? "Connecting" : "Unknown"));
  byId("crawl-state").dataset.state = state ?? "unknown";
  byId("stream-state").dataset.state = stream;
  setText(byId("stream-state"), text);
  setText(byId("version"), crawl?.version ? `Orbweaver ${crawl.version}` : "Orbweaver");
  const letters = crawl?.dead_letters ?? 0;
  byId("dead-letter-count").hidden = letters === 0;
  setText(byId("dead-letter-count"), count(letters));
  document.body.classList.toggle("is-stale", isStale());
  drawBanner();
  const now = isStale() ? "The figures are no longer current" : state && `The crawl is ${STATES[state]?.toLowerCase()}`;
  if (now && announced !== null && now !== announced) announce(now);
  announced = now ?? announced;
}

/** Keeps header and banner current. */
export function prepareStatus() {
  onChange(draw);
  setInterval(draw, 1000);
  draw();
}
