// The console: the page that the hash names, the header that all pages share, and the keyboard.

import { prepareKeys } from "./keys.js";
import { prepareStatus } from "./status.js";
import { prepareToken } from "./token.js";
import { follow } from "./live.js";
import { el, route } from "./dom.js";
import { empty, failure, heading } from "./views.js";
import { show as overview } from "./overview.js";
import { show as sites } from "./sites.js";
import { show as pages } from "./pages.js";
import { show as url } from "./url.js";
import { show as deadLetters } from "./deadletters.js";
import { show as settings } from "./settings.js";

const PAGES = { overview, sites, pages, url, "dead-letters": deadLetters, settings };
const TITLES = { overview: "Overview", sites: "Sites", pages: "Pages", url: "URL", "dead-letters": "Dead letters", settings: "Settings" };
const main = document.getElementById("main");
let current = null;

/** Page and parameters of a hash such as `#/pages?site=a.example`. */
export function parseHash(hash) {
  const [name, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: name || "overview", parameters: new URLSearchParams(query) };
}

function open(isFirst) {
  const { name, parameters } = parseHash(location.hash);
  // Everything that the last page had started ends with it.
  current?.abort();
  current = new AbortController();
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const show = Object.hasOwn(PAGES, name) ? PAGES[name] : null;
  const subject = parameters.get("url") ?? parameters.get("site");
  document.title = [subject, TITLES[name] ?? "Unknown page", "Orbweaver"].filter(Boolean).join(" · ");
  main.replaceChildren();
  try {
    if (show) show(main, { parameters, signal: current.signal });
    else main.append(heading("Unknown page"), empty("The console has no such page", el("a", { href: "#/" }, "To the overview")));
  } catch (error) {
    main.append(failure(error));
  }
  if (isFirst) return;
  scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = document.getElementById("search-input");
  const given = input.value.trim();
  if (given === "") return input.focus();
  input.value = "";
  const target = route("url", { url: given });
  if (target === location.hash) open(false);
  else location.hash = target;
});
addEventListener("hashchange", () => open(false));
prepareToken();
prepareKeys();
prepareStatus();
open(true);
follow();
