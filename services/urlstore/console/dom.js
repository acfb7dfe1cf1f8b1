// Elements made by script. Text from the web becomes text nodes only, and a URL becomes a link only if its scheme is
// http or https.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes an element: `el("p", {class: "note"}, "text", child)`. Values that are null or false are left out. */
export function el(name, properties, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** Makes an SVG element. */
export function svg(name, properties, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

/** Sets the text of an element if it differs, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  const value = String(text ?? "");
  if (element.textContent !== value) element.textContent = value;
}

/** Hash of a page of the console, with its parameters; those without a value are left out. */
export function route(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

/** Link to another page of the console. */
export function pageLink(path, parameters, text, properties = {}) {
  return el("a", { href: route(path, parameters), ...properties }, text);
}

/** A URL of the web as a link to what the crawl knows of it. */
export function urlLink(url) {
  return pageLink("url", { url }, url, { class: "url" });
}

/** Link out of the console to a URL of the web; null unless its scheme is http or https. */
export function outsideLink(url, text = "Open on the web") {
  let parsed;
  try {
    parsed = new URL(url);
  } catch {
    return null;
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") return null;
  return el("a", { href: parsed.href, target: "_blank", rel: "noreferrer noopener nofollow", referrerpolicy: "no-referrer", class: "outside" }, text, " ↗");
}

/** Table with a caption and column headers. A column is a text, or `{text, class}`. */
export function table(caption, columns, properties = {}) {
  const heads = columns.map((column) => (typeof column === "string" ? { text: column } : column));
  const body = el("tbody");
  const element = el(
    "table",
    properties,
    el("caption", null, caption),
    el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col", class: head.class }, head.text)))),
    body,
  );
  return { element: el("div", { class: "scroll" }, element), table: element, body };
}

/** Keeps the children of a parent in step with items: existing ones are updated in position, so that focus is kept. */
export function keyed(parent, items, key, make) {
  const known = parent.keyedItems ?? new Map();
  const next = new Map();
  let position = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    const entry = known.get(name) ?? make(item);
    known.delete(name);
    next.set(name, entry);
    entry.update?.(item);
    if (entry.element === position) position = position.nextSibling;
    else parent.insertBefore(entry.element, position);
  }
  for (const entry of known.values()) entry.element.remove();
  parent.keyedItems = next;
}

/** Announces a change to screen readers. */
export function announce(text) {
  setText(document.getElementById("announcements"), text);
}
