// Outcomes of URLs as a table: by kind, with the reasons of each.

import { el, keyed, setText, table } from "./dom.js";
import { count, reasonWords, share } from "./format.js";
import { section } from "./views.js";

const REASONS = {
  robots: "robots.txt forbids the URL",
  robots_unreachable: "robots.txt could not be read",
  crawl_delay: "the delay in robots.txt is too long",
  purpose: "the site refuses the purpose of the crawl",
  content_type: "a type that the crawl does not accept",
  private_address: "the address is not public",
  challenge: "only a browser passes the challenge",
  trap: "part of a trap, such as an endless calendar",
  site_cap: "past the page limit of its site",
  dns: "the host has no address",
  connect: "no connection in time",
  tls: "TLS failed",
  timeout: "no complete response in time",
  slow_body: "the body arrived too slowly",
  connection: "the connection broke",
  body: "incomplete, or not decodable",
  soft_404: "a page that says it does not exist",
  parked: "a parked domain",
  firewall: "a firewall sent another page",
  redirect_loop: "redirects to itself",
  too_many_redirects: "too many redirects",
  bad_redirect: "a redirect to no URL of the web",
};

function meaning(reason) {
  const http = /^http_(\d)\d\d$/.exec(reason);
  if (http?.[1] === "5" || reason === "http_429") return "the server failed or was overloaded";
  return REASONS[reason] ?? "";
}

/** Rows of the table: kinds, and below each its reasons, most frequent first. */
export function rowsOf(urls) {
  const reasons = (kind, group) =>
    Object.entries(group ?? {})
      .sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0]))
      .map(([reason, number]) => ({ key: `${kind}/${reason}`, name: reasonWords(reason), number, note: meaning(reason), isReason: true }));
  const total = (group) => Object.values(group ?? {}).reduce((all, value) => all + value, 0);
  const kind = (key, name, number, note) => ({ key, name, number: number ?? 0, note, kind: key });
  const gone = kind("gone", "Gone", total(urls.gone), "no page");
  const refused = kind("refused", "Refused", total(urls.refused), "not requested, or not kept");
  const retries = kind("retries", "Retries", total(urls.retries), "failed attempts, repeated; not counted above");
  return [
    kind("fetched", "Fetched", urls.fetched, "pages"),
    urls.unchanged > 0 && kind("unchanged", "Unchanged", urls.unchanged, "visited again, without a change"),
    urls.requisites > 0 && kind("requisites", "Requisites", urls.requisites, "images, styles and scripts of pages"),
    kind("redirected", "Redirected", urls.redirected, ""),
    refused,
    ...reasons("refused", urls.refused),
    gone,
    ...reasons("gone", urls.gone),
    retries.number > 0 && retries,
    ...reasons("retries", urls.retries),
    urls.blocked > 0 && kind("blocked", "Blocks", urls.blocked, "sites refused requests for a time; not counted above"),
  ].filter(Boolean);
}

function makeRow({ isReason, kind }) {
  const [name, number, part, note] = [el("span"), el("td", { class: "number" }), el("td", { class: "number muted" }), el("td", { class: "muted wide" })];
  const head = el("th", { scope: "row" }, name);
  return {
    element: el("tr", { class: isReason ? "reason" : "kind", "data-kind": kind }, head, number, part, note),
    update(row) {
      setText(name, row.name);
      setText(number, count(row.number));
      setText(part, row.share);
      setText(note, row.note);
    },
  };
}

/** Makes the section. */
export function outcomes() {
  const columns = ["Outcome", { text: "URLs", class: "number" }, { text: "Share", class: "number" }, { text: "Meaning", class: "wide" }];
  const { element, body } = table("Results so far, by outcome and reason", columns, { class: "outcomes" });
  return {
    element: section("Outcomes", element),
    draw({ urls }) {
      const rows = rowsOf(urls);
      const ends = rows.filter(({ kind }) => kind && kind !== "retries" && kind !== "blocked");
      const total = ends.reduce((all, { number }) => all + number, 0);
      const counts = (row) => !row.key.startsWith("retries") && row.kind !== "blocked";
      keyed(body, rows.map((row) => ({ ...row, share: counts(row) ? share(row.number, total) : "" })), (row) => row.key, makeRow);
    },
  };
}
