// Pages of a site, by status, in parts.

import { get, path } from "./api.js";
import { el, pageLink, route, table, urlLink } from "./dom.js";
import { bytes, count, counted, NOTHING, time } from "./format.js";
import { crawlName, live, settled } from "./live.js";
import { empty, field, fillWith, heading, outcomeText, statusBadge } from "./views.js";

const STATUSES = [["", "All"], ["2xx", "2xx"], ["3xx", "3xx"], ["4xx", "4xx"], ["5xx", "5xx"], ["none", "No response"]];
const LIMITS = ["100", "500", "1000"];
/** Parts without a page that are followed by themselves: the filter may leave nothing of many parts. */
const MAX_EMPTY_PARTS = 10;

/** First part with pages, from a cursor on. */
async function read(query, signal) {
  let answer;
  let cursor = query.cursor;
  const crawl = await crawlName();
  for (let parts = 0; parts <= MAX_EMPTY_PARTS; parts += 1) {
    answer = await get(path("/v1/pages", { ...query, cursor, crawl }), signal);
    if (answer.pages.length > 0 || answer.next === null) return answer;
    cursor = answer.next;
  }
  return answer;
}

function row(page) {
  return el(
    "tr",
    null,
    el("th", { scope: "row" }, urlLink(page.url)),
    el("td", null, statusBadge(page.status)),
    el("td", null, outcomeText(page.outcome, page.reason)),
    el("td", { class: "muted", title: page.content_type }, page.content_type?.split(";")[0] || NOTHING),
    el("td", { class: "number" }, bytes(page.bytes)),
    el("td", { class: "number" }, count(page.depth)),
    el("td", { class: "number muted" }, time(page.fetched_at)),
  );
}

function pager(query, next) {
  const first = query.cursor && pageLink("pages", { ...query, cursor: null }, "First pages");
  const more = next && pageLink("pages", { ...query, cursor: next }, "Next pages", { class: "button", rel: "next" });
  return (first || more) && el("nav", { class: "pager", "aria-label": "Parts of the list" }, first, more);
}

function list(query, { pages, next }) {
  if (pages.length === 0) {
    const title = next ? "No page found so far" : query.cursor ? "No more pages" : "No pages";
    const detail = next ? "The list is long, and none of the pages read so far has this status." : query.cursor ? "The list ended with the part before." : "No page of this site has this status.";
    return [empty(title, detail), pager(query, next)].filter(Boolean);
  }
  const number = { class: "number" };
  const columns = ["URL", "Status", "Outcome", "Type", { text: "Size", ...number }, { text: "Depth", ...number }, { text: "Fetched", ...number }];
  const { element, body } = table(`${counted(pages.length, "page")} of ${query.site}${next ? ", more follow" : ""}`, columns, { class: "pages" });
  body.append(...pages.map(row));
  return [el("div", { class: "card" }, element), pager(query, next)].filter(Boolean);
}

function siteForm(query) {
  const options = el("datalist", { id: "known-sites" });
  settled().then(() => options.append(...(live.crawl?.busiest ?? []).map(({ site: value }) => el("option", { value }))));
  const site = el("input", { type: "text", name: "site", value: query.site, required: true, maxlength: "255", list: "known-sites", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "example.org" });
  const exact = el("input", { type: "text", name: "status", inputmode: "numeric", maxlength: "4", size: "6", placeholder: "404", value: STATUSES.some(([value]) => value === query.status) ? "" : query.status });
  const limit = el("select", { name: "limit" }, LIMITS.map((value) => el("option", { value, selected: value === query.limit }, value)));
  const submit = (event) => {
    event.preventDefault();
    const status = exact.value.trim() || (STATUSES.some(([value]) => value === query.status) ? query.status : "");
    const target = route("pages", { site: site.value.trim(), status, limit: limit.value });
    if (target === location.hash) dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = target;
  };
  limit.addEventListener("change", () => query.site && site.form.requestSubmit());
  return el("form", { class: "inline-form", onsubmit: submit }, field("Site", site), field("Exact status", exact), field("Per part", limit), el("button", { type: "submit", class: "primary" }, "Show"), options);
}

function filters(query) {
  const link = ([status, name]) => pageLink("pages", { ...query, status, cursor: null }, name, { "aria-current": status === query.status ? "true" : null });
  return el("nav", { class: "filters", "aria-label": "Status" }, STATUSES.map(link));
}

/** Shows the page. */
export function show(main, { parameters, signal }) {
  const given = (name, fallback = "") => (parameters.get(name) ?? fallback).trim();
  const query = { site: given("site"), status: given("status"), limit: given("limit", "100"), cursor: given("cursor") || null };
  main.append(heading("Pages"), siteForm(query));
  if (query.site === "") {
    const sites = el("ul", { class: "site-list" });
    main.append(empty("Name a site", "The site of a URL is its registrable domain, its host or its IP address."), sites);
    settled().then(() => sites.append(...(live.crawl?.busiest ?? []).map(({ site }) => el("li", null, pageLink("pages", { site }, site, { class: "url" })))));
    return;
  }
  const body = el("div", { class: "stack", id: "page-list" });
  main.append(filters(query), body);
  fillWith(body, signal, () => read(query, signal), (answer) => list(query, answer));
}
