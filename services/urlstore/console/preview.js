// Preview of a page from the web: its text and structure, without anything that runs, loads or leads elsewhere.
//
// Three layers: only listed elements and attributes are kept; the frame has an empty sandbox, so no scripts, forms or
// navigation; and its policy allows no request at all.

import { el } from "./dom.js";

const KEPT = new Set(
  ("a abbr address article aside b bdi bdo blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption figure footer " +
    "h1 h2 h3 h4 h5 h6 header hgroup hr i img ins kbd li main mark menu nav ol p pre q rp rt ruby s samp section small span strong sub summary sup " +
    "table tbody td tfoot th thead time tr u ul var wbr").split(" "),
);
const DROPPED = new Set("applet audio base canvas datalist embed frame frameset head iframe link math meta noscript object script select style svg template textarea title video".split(" "));
const ATTRIBUTES = new Set("abbr alt cite colspan dir headers lang reversed rowspan scope span start title".split(" "));
const MAX_ELEMENTS = 50_000;

/** Copies listed elements, attributes and text into a document; the rest of the page is left out. */
export function copySafely(source, target) {
  const made = target.ownerDocument;
  const pending = [[source, target]];
  let number = 0;
  while (pending.length > 0 && number < MAX_ELEMENTS) {
    const [from, to] = pending.pop();
    for (const child of from.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) to.append(made.createTextNode(child.data));
      if (child.nodeType !== Node.ELEMENT_NODE) continue;
      const name = child.localName;
      if (DROPPED.has(name)) continue;
      number += 1;
      const copy = made.createElement(KEPT.has(name) ? name : "span");
      for (const attribute of child.attributes) {
        if (ATTRIBUTES.has(attribute.name)) copy.setAttribute(attribute.name, attribute.value);
      }
      if (name === "a" && child.hasAttribute("href")) copy.setAttribute("title", child.getAttribute("href"));
      if (name === "img") copy.textContent = "";
      to.append(copy);
      pending.push([child, copy]);
    }
  }
}

/** Complete page for the frame. */
export function safePage(text) {
  const parsed = new DOMParser().parseFromString(text, "text/html");
  const page = document.implementation.createHTMLDocument("");
  const policy = page.createElement("meta");
  policy.setAttribute("http-equiv", "Content-Security-Policy");
  policy.setAttribute("content", "default-src 'none'; base-uri 'none'; form-action 'none'");
  page.head.append(policy);
  // A style sheet would have to be loaded, which this frame cannot: the font is an attribute.
  const font = page.createElement("font");
  font.setAttribute("face", "system-ui, sans-serif");
  page.body.setAttribute("bgcolor", "#ffffff");
  page.body.setAttribute("text", "#1b1f27");
  page.body.append(font);
  copySafely(parsed.body ?? parsed.documentElement, font);
  return `<!doctype html>${page.documentElement.outerHTML}`;
}

/** Note and frame. */
export function previewOf(text) {
  const frame = el("iframe", { class: "preview", id: "content-preview", title: "Preview of the archived page", sandbox: "", referrerpolicy: "no-referrer", srcdoc: safePage(text) });
  const note = el("p", { class: "hint" }, "Text and structure alone: scripts, styles, images and links of the page are left out.");
  return [note, frame];
}
