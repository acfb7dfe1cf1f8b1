// All that the crawl knows of one URL.

import { get, path } from "./api.js";
import { contentSection } from "./content.js";
import { el, outsideLink, pageLink, route, table, urlLink } from "./dom.js";
import { bytes, count, counted, time } from "./format.js";
import { crawlName } from "./live.js";
import { timeline } from "./timeline.js";
import { empty, facts, failure, field, fillWith, heading, loading, outcomeText, section, statusBadge } from "./views.js";

const LINKS = 100;
const EVENTS = 50;

const ENDINGS = {
  page: "ends at a page",
  unknown: "ends at a URL that is not fetched",
  loop: "leads back into itself",
  too_long: "is longer than ten redirects",
  invalid_target: "leads to no URL of the web",
  no_target: "leads to a target that is not stored",
};

const OBJECTIONS = {
  invalid_target: "it is no URL of the web",
  not_fetched: "it was not fetched with success",
  not_confirmed: "it is of another site, whose page does not declare itself to be canonical",
  loop: "it leads back",
  too_long: "more than ten declarations follow",
};

/** Redirects and canonical URLs, and how they end. */
function resolutionOf({ resolution }) {
  if (!resolution) return null;
  const { chain, ignored_canonical: ignored } = resolution;
  if (chain.length === 0 && !ignored) return null;
  const hop = ({ kind, from, to, status, at }) => {
    const what = kind === "redirect" ? statusBadge(status) : el("span", { class: "pill" }, "rel=canonical");
    return el("li", null, el("div", null, urlLink(from)), el("div", { class: "hop" }, what, el("span", { class: "muted" }, time(at)), el("span", null, "to")), el("div", null, urlLink(to)));
  };
  const text = `The chain of ${counted(chain.length, "hop")} ${ENDINGS[resolution.ending] ?? `ends: ${resolution.ending}`}.`;
  return section(
    "Canonical URL",
    chain.length > 0 && [el("p", null, text), el("ol", { class: "chain" }, chain.map(hop))],
    ignored && el("p", { id: "ignored-canonical" }, "The page declares ", urlLink(ignored.to), ` to be canonical, which is not followed: ${OBJECTIONS[ignored.reason] ?? ignored.reason}.`),
  );
}

function stateFacts(about, state) {
  return facts([
    ["Outcome", outcomeText(state.outcome, state.reason)],
    ["Status", statusBadge(state.status)],
    ["Fetched", el("span", { class: "tabular" }, time(state.fetched_at))],
    ["Size", bytes(state.bytes)],
    ["Content type", state.content_type],
    ["Depth", count(state.depth)],
    ["Site", pageLink("sites", { site: state.site }, state.site, { class: "url" })],
    ["Found on", state.via && urlLink(state.via)],
    ["ETag", state.etag && el("code", null, state.etag)],
    ["Last modified", state.last_modified],
    ["Content hash", state.content_hash && el("code", null, state.content_hash)],
    ["Canonical form", about.canonical !== state.url && el("span", { class: "url" }, about.canonical)],
    ["Fingerprint", el("code", null, about.fingerprint)],
  ]);
}

function stateSection(about, state) {
  if (!state) return section("Last known state", el("p", null, "This URL was not fetched."));
  return section("Last known state", stateFacts(about, state));
}

/** Links of the page, in parts that are appended. */
function linksSection(parameters, signal) {
  const part = section("Links");
  const body = el("div", { id: "links" });
  part.append(body);
  const row = ({ url, nofollow }) => {
    const outside = outsideLink(url, "Open");
    outside?.setAttribute("aria-label", `Open ${url} on the web`);
    return el("tr", null, el("th", { scope: "row" }, urlLink(url), nofollow && [" ", el("span", { class: "pill" }, "nofollow")]), el("td", { class: "number" }, outside));
  };
  const request = (cursor) => get(path("/v1/links", { ...parameters, limit: LINKS, cursor }), signal);
  fillWith(body, signal, () => request(null), (answer) => {
    if (answer.total === 0) return empty("No links", answer.fetched_at ? "The page has none." : "This URL was never a page with links.");
    const { element, body: rows } = table(`${counted(answer.total, "link")} in the order of the page, at ${time(answer.fetched_at)}`, ["URL", { text: "On the web", class: "number" }], { class: "links" });
    const shown = el("span", { class: "muted", role: "status" });
    const problem = el("div");
    const more = el("button", { type: "button", id: "more-links" }, "More links");
    const append = ({ links, next }) => {
      rows.append(...links.map(row));
      shown.textContent = `${count(rows.rows.length)} of ${count(answer.total)}`;
      more.hidden = next === null;
      more.onclick = async () => {
        more.disabled = true;
        problem.replaceChildren();
        try {
          const following = await request(next);
          const focused = rows.rows.length;
          append(following);
          if (more.hidden) rows.rows[focused]?.querySelector("a")?.focus();
        } catch (error) {
          if (!signal.aborted) problem.append(failure(error));
        }
        more.disabled = false;
      };
    };
    append(answer);
    return [element, problem, el("div", { class: "pager" }, more, shown)];
  });
  return part;
}

/** Parameters of answers about the URL itself. */
function ownOf(parameters) {
  return { ...parameters, resolve: "no" };
}

async function read(parameters, signal) {
  const known = await get(path("/v1/url", parameters), signal);
  const leadsOn = (known.resolution?.chain.length ?? 0) > 0;
  const itself = ownOf(parameters);
  const [own, history, captures] = await Promise.all([
    leadsOn ? get(path("/v1/url", itself), signal) : known,
    get(path("/v1/history", { ...itself, limit: EVENTS }), signal),
    get(path("/v1/captures", { ...itself, limit: EVENTS }), signal),
  ]);
  return { known, own, history, captures };
}

function draw(answers, parameters, signal) {
  const { known, own, history, captures } = answers;
  const hasCaptures = captures.captures.length > 0;
  return [
    resolutionOf(known),
    stateSection(own, own.state),
    section("Life", timeline(own.state, history, captures)),
    contentSection(own.url ?? own.requested, ownOf(parameters), signal, hasCaptures),
    linksSection(ownOf(parameters), signal),
  ].filter(Boolean);
}

function form(url) {
  const input = el("input", { type: "text", inputmode: "url", name: "url", value: url, required: true, maxlength: "8192", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "https://example.org/" });
  const submit = (event) => {
    event.preventDefault();
    location.hash = route("url", { url: input.value.trim() });
  };
  return el("form", { class: "inline-form", onsubmit: submit }, field("URL", input, "A bare host means https. Any spelling that the crawl takes for the same page finds it."), el("button", { type: "submit", class: "primary" }, "Look up"));
}

/** Shows the page. */
export function show(main, { parameters, signal }) {
  const url = (parameters.get("url") ?? "").trim();
  if (url === "") {
    main.append(heading("URL"), form(url));
    return;
  }
  const outside = outsideLink(url);
  const body = el("div", { class: "stack", id: "url-body" }, loading());
  main.append(el("div", { class: "page-head url-head" }, el("h1", { tabindex: "-1", class: "url" }, url), outside), body);
  const request = async () => {
    const given = { url, crawl: await crawlName() };
    try {
      return { answers: await read(given, signal), given };
    } catch (error) {
      if (error.kind === "unknown-url") return null;
      throw error;
    }
  };
  fillWith(body, signal, request, (found) => {
    if (found) return draw(found.answers, found.given, signal);
    return [empty("Nothing is known of this URL", "The crawl has not fetched it: it was never found, or it is still queued."), el("div", { class: "card" }, form(url))];
  });
}
