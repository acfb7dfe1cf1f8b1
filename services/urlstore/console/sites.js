// Sites: the busiest ones, those that are blocked, and the setting of any.

import { el, keyed, pageLink, route, setText, table } from "./dom.js";
import { count, counted, time } from "./format.js";
import { live, onChange } from "./live.js";
import { siteControl } from "./sitecontrol.js";
import { empty, failure, field, heading, loading, section } from "./views.js";

function siteRow(signal, cells) {
  return ({ site }) => {
    const control = siteControl(site, signal);
    const extra = cells();
    return {
      element: el(
        "tr",
        { "data-site": site },
        el("th", { scope: "row" }, pageLink("sites", { site }, site, { class: "url" })),
        extra.element,
        el("td", null, control.element),
        el("td", null, pageLink("pages", { site }, "Pages", { "aria-label": `Pages of ${site}` })),
      ),
      update(item) {
        extra.update?.(item);
        control.draw();
      },
    };
  };
}

function busiest(signal) {
  const { element, body } = table("Sites with the most queued URLs", ["Site", { text: "Queued", class: "number" }, "Requests", "More"], { class: "sites" });
  const none = empty("No site has queued URLs", "Sites are listed here while their URLs wait.");
  const make = siteRow(signal, () => {
    const cell = el("td", { class: "number" });
    return { element: cell, update: ({ queued }) => setText(cell, count(queued)) };
  });
  return {
    element: section("Busiest sites", element, none),
    draw(crawl) {
      const sites = [...(crawl.busiest ?? [])];
      // A site whose row is in use stays listed while its queue is empty.
      const used = body.querySelector("tr:focus-within")?.dataset.site;
      if (used && !sites.some(({ site }) => site === used)) sites.push({ site: used, queued: 0 });
      [element.hidden, none.hidden] = [sites.length === 0, sites.length > 0];
      keyed(body, sites, ({ site }) => site, make);
    },
  };
}

function blocked(signal) {
  const note = el("p", { class: "muted" });
  const { element, body } = table("Sites that refuse requests for a time", ["Site", "Requests", "More"], { class: "sites" });
  const make = siteRow(signal, () => ({ element: [] }));
  const part = section("Blocked sites", note, element);
  return {
    element: part,
    draw(crawl) {
      const { count: number = 0, names = [], next_request_at: next } = crawl.blocked ?? {};
      element.hidden = names.length === 0;
      const when = next ? ` The next request is due at ${time(next)}.` : "";
      const rest = number > names.length && names.length > 0 ? ` ${names.length} of them are listed.` : "";
      const text = number === 0 ? "No site refuses requests." : `${counted(number, "site")} answered with 429, 503 or a challenge.${when}${rest}`;
      setText(note, text);
      keyed(body, names.map((site) => ({ site })), ({ site }) => site, make);
    },
  };
}

function frozen(signal) {
  const { element, body } = table("Sites without requests until they are unfrozen", ["Site", "Requests", "More"], { class: "sites" });
  const part = section("Frozen sites", element);
  const make = siteRow(signal, () => ({ element: [] }));
  return {
    element: part,
    draw(crawl) {
      const sites = crawl.frozen ?? [];
      part.hidden = sites.length === 0;
      keyed(body, sites.map((site) => ({ site })), ({ site }) => site, make);
    },
  };
}

function chosen(site, signal) {
  const control = siteControl(site, signal, true);
  const links = el("p", null, pageLink("pages", { site }, "Pages of this site"));
  return { element: el("section", { class: "card chosen", "aria-label": `Site ${site}` }, el("h2", { class: "url" }, site), control.element, links), draw: () => control.draw() };
}

function lookUp(site) {
  const input = el("input", { type: "text", name: "site", value: site, required: true, maxlength: "255", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "example.org" });
  const submit = (event) => {
    event.preventDefault();
    location.hash = route("sites", { site: input.value.trim() });
  };
  return el("form", { class: "inline-form", onsubmit: submit }, field("Site", input, "Registrable domain, host or IP address"), el("button", { type: "submit" }, "Show"));
}

/** Shows the page. */
export function show(main, { parameters, signal }) {
  const site = (parameters.get("site") ?? "").trim();
  const makers = [site && (() => chosen(site, signal)), () => busiest(signal), () => frozen(signal), () => blocked(signal)].filter(Boolean);
  const body = el("div", { class: "stack" }, loading());
  let parts = null;
  const draw = () => {
    if (!live.crawl && live.connection !== "unavailable") {
      if (live.error) body.replaceChildren(failure(live.error));
      return;
    }
    if (!parts) {
      parts = makers.map((make) => make());
      body.replaceChildren(...parts.map(({ element }) => element));
    }
    for (const part of parts) part.draw(live.crawl ?? {});
  };
  main.append(heading("Sites"), lookUp(site), body);
  onChange(draw, signal);
  draw();
}
