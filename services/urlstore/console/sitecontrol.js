// Setting of one site: frozen or not, and its rate.

import { get, write } from "./api.js";
import { announce, el, setText } from "./dom.js";
import { time } from "./format.js";
import { isChangeable } from "./live.js";

/** Several controls of one site share its setting. */
const settings = new EventTarget();
let number = 0;

/** Requests per second of a text; `undefined` if it is no number. Empty is the rate of the crawl. */
export function parseRate(text, isBad) {
  if (isBad) return undefined;
  if (text.trim() === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

/** Text of a problem that names the allowed values. */
function problemText(error) {
  return error.allowed ? `${error.message}; allowed: ${error.allowed}` : error.message;
}

/** Makes the controls. `isLong` also shows the time of the last change. */
export function siteControl(site, signal, isLong = false) {
  const id = `site-${(number += 1)}`;
  const input = el("input", { type: "number", min: "0", step: "any", inputmode: "decimal", id: `${id}-rate`, placeholder: "crawl’s own", "aria-describedby": `${id}-error` });
  const label = el("label", { class: isLong ? "field-label" : "hidden", for: `${id}-rate` }, isLong ? "Requests per second" : `Requests per second to ${site}`);
  const set = el("button", { type: "submit", "aria-label": `Set the rate of ${site}` }, "Set");
  const freeze = el("button", { type: "button" });
  const error = el("p", { class: "field-error", id: `${id}-error`, role: "alert", hidden: true });
  const note = el("p", { class: "muted" });
  const form = el("form", { class: "site-form", novalidate: true }, freeze, label, input, set);
  const element = el("div", { class: "site-control" }, el("div", { class: "site-state" }), form, error, isLong && note);
  const state = element.querySelector(".site-state");
  let setting = null;
  let isBusy = false;
  let failed = "";

  function draw() {
    const rate = setting?.requests_per_second;
    const words = [setting?.frozen && "Frozen", setting && rate !== null && rate !== undefined && `${rate} per second`].filter(Boolean);
    setText(state, words.join(" · ") || (setting ? "As the crawl" : failed || "Loading…"));
    state.dataset.frozen = String(Boolean(setting?.frozen));
    freeze.hidden = !setting || !isChangeable();
    setText(freeze, setting?.frozen ? "Unfreeze" : "Freeze");
    freeze.setAttribute("aria-label", `${setting?.frozen ? "Unfreeze" : "Freeze"} ${site}`);
    for (const part of [label, input, set]) part.hidden = !setting || !isChangeable();
    for (const part of [freeze, set]) part.setAttribute("aria-disabled", String(isBusy));
    setText(note, setting?.changed_at ? `Changed at ${time(setting.changed_at)}` : setting ? "Never changed" : "");
  }

  function complain(text) {
    setText(error, text);
    error.hidden = text === "";
    input.setAttribute("aria-invalid", String(text !== ""));
  }

  async function load() {
    try {
      setting = await get(`/v1/sites/${encodeURIComponent(site)}`, signal);
      input.value = setting.requests_per_second ?? "";
    } catch (problem) {
      if (signal.aborted) return;
      failed = problem.status === 404 ? "–" : problemText(problem);
    }
    draw();
  }

  async function put(next, done) {
    if (isBusy || !setting) return;
    isBusy = true;
    complain("");
    draw();
    try {
      const { frozen, requests_per_second } = { ...setting, ...next };
      setting = await write("PUT", `/v1/sites/${encodeURIComponent(site)}`, { frozen, requests_per_second });
      settings.dispatchEvent(new CustomEvent("set", { detail: setting }));
      announce(done(setting));
    } catch (problem) {
      complain(problemText(problem));
    }
    isBusy = false;
    draw();
  }

  freeze.addEventListener("click", () => put({ frozen: !setting.frozen }, ({ frozen }) => `${site} is ${frozen ? "frozen" : "no longer frozen"}`));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const rate = parseRate(input.value, input.validity.badInput);
    if (rate === undefined) return complain("the rate is not a number; allowed: requests per second, or nothing for the rate of the crawl");
    put({ requests_per_second: rate }, () => (rate === null ? `${site} has the rate of the crawl` : `${site}: ${rate} requests per second`));
  });
  settings.addEventListener("set", ({ detail }) => {
    if (detail.site !== site || detail === setting) return;
    setting = detail;
    if (document.activeElement !== input) input.value = detail.requests_per_second ?? "";
    draw();
  }, { signal });
  load();
  return { element, draw };
}
