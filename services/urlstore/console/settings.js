// Settings: records of the crawl and of sites as they are in the log.

import { get } from "./api.js";
import { el } from "./dom.js";
import { counted, time } from "./format.js";
import { empty, fillWith, heading } from "./views.js";

function item({ key, time: at, value }) {
  return el(
    "li",
    { class: "card setting", "data-key": key },
    el("div", { class: "setting-head" }, el("h2", { class: "url" }, key), el("span", { class: "muted tabular" }, time(at))),
    el("pre", { class: "source", role: "group", tabindex: "0", "aria-label": `Value of ${key}` }, JSON.stringify(value, null, 2)),
  );
}

/** Shows the page. */
export function show(main, { signal }) {
  const body = el("div", { class: "stack", id: "settings" });
  main.append(heading("Settings"), el("p", { class: "lead" }, "The definition of the crawl, with the time of its creation, and the settings of sites, with that of their last change."), body);
  fillWith(body, signal, () => get("/v1/settings", signal), ({ settings }) => {
    if (settings.length === 0) return empty("No settings", "Everything has its default.");
    const list = el("ol", { class: "plain-list stack" }, settings.map(item));
    const shown = el("span", { class: "muted", role: "status" }, counted(settings.length, "setting"));
    const filter = el("input", { type: "search", "aria-label": "Filter by key", placeholder: "Filter by key" });
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      for (const entry of list.children) entry.hidden = !entry.dataset.key.toLowerCase().includes(wanted);
      const number = [...list.children].filter(({ hidden }) => !hidden).length;
      shown.textContent = number === settings.length ? counted(number, "setting") : `${number} of ${counted(settings.length, "setting")}`;
    });
    return [el("div", { class: "filter-row" }, filter, shown), list];
  });
}
