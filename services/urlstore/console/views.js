// States that all pages share: loading, empty, error, and the end of the server; and parts that several pages have.

import { Problem } from "./api.js";
import { el } from "./dom.js";
import { reasonWords, statusClass } from "./format.js";
import { live } from "./live.js";

/** Shown while an answer is awaited. */
export function loading(text = "Loading…") {
  return el("p", { class: "state loading", role: "status" }, el("span", { class: "spinner", "aria-hidden": "true" }), text);
}

/** Shown where there is nothing to list. */
export function empty(title, ...details) {
  return el("div", { class: "state empty" }, el("p", { class: "state-title" }, title), details.map((detail) => el("p", null, detail)));
}

/** Shown instead of an answer that failed, with a button to repeat the request. */
export function failure(error, retry) {
  const problem = error instanceof Problem ? error : new Problem(0, { title: "This page has a fault", detail: String(error) });
  const gone = problem.kind === "unreachable" && live.crawl?.state === "ended";
  const title = gone ? "The server has ended" : problem.title;
  const details = gone
    ? [`The crawl has ended, and its console with it. The results remain in its directory; `, el("code", null, "orbweaver serve DIR"), " shows them here again."]
    : [problem.message !== title && `${problem.message}.`, problem.part && ` Parameter: ${problem.part}.`, problem.allowed && ` Allowed: ${problem.allowed}.`];
  return el(
    "div",
    { class: "state error", role: "alert" },
    el("p", { class: "state-title" }, title),
    el("p", null, details),
    retry && el("button", { type: "button", onclick: retry }, "Try again"),
  );
}

/** Fills an element with the result of a request: first the state of loading, then content or the failure. */
export async function fillWith(element, signal, request, render) {
  const run = async () => {
    element.replaceChildren(loading());
    element.setAttribute("aria-busy", "true");
    let content;
    try {
      content = render(await request());
    } catch (error) {
      if (signal.aborted) return;
      content = failure(error, run);
    }
    if (signal.aborted) return;
    element.removeAttribute("aria-busy");
    element.replaceChildren(...[content].flat());
  };
  await run();
}

/** Heading of a page, which gets the focus when the page is opened. */
export function heading(title, ...rest) {
  return el("div", { class: "page-head" }, el("h1", { tabindex: "-1" }, title), rest);
}

/** Section with a heading of level two. */
export function section(title, ...children) {
  const id = `section-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return el("section", { "aria-labelledby": id, class: "card" }, el("h2", { id }, title), children);
}

/** HTTP status as a badge; a fetch without a response has none. */
export function statusBadge(status) {
  return el("span", { class: `badge ${statusClass(status)}` }, status ?? "none");
}

/** Outcome, with its reason. */
export function outcomeText(outcome, reason) {
  return reason ? [outcome, " ", el("span", { class: "muted" }, `(${reasonWords(reason)})`)] : outcome;
}

/** Pairs of a name and a value; those without a value are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return el("dl", { class: "facts" }, given.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

/** Input with its label above. */
export function field(label, input, hint) {
  return el("label", { class: "field" }, el("span", { class: "field-label" }, label), input, hint && el("span", { class: "hint" }, hint));
}
