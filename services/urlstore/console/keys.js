// Keyboard shortcuts. They can be switched off, since single letters disturb speech input.

const PAGES = { o: "#/", s: "#/sites", p: "#/pages", u: "#/url", d: "#/dead-letters", t: "#/settings" };
const OFF = "orbweaver-keys-off";
const SEQUENCE_MS = 1_500;
let startedAt = -Infinity;

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]), select, textarea"));
}

function openKeys() {
  document.getElementById("keys-dialog").showModal();
}

/** Handles a key. */
function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (localStorage.getItem(OFF)) return;
  const follows = performance.now() - startedAt < SEQUENCE_MS;
  startedAt = -Infinity;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search-input").focus();
  } else if (event.key === "?") {
    event.preventDefault();
    openKeys();
  } else if (follows && Object.hasOwn(PAGES, event.key)) {
    event.preventDefault();
    location.hash = PAGES[event.key];
  } else if (event.key === "g") {
    startedAt = performance.now();
  }
}

/** Connects the keyboard. */
export function prepareKeys() {
  document.addEventListener("keydown", press);
  document.getElementById("keys-open").addEventListener("click", openKeys);
  const on = document.getElementById("keys-on");
  on.checked = !localStorage.getItem(OFF);
  on.addEventListener("change", () => (on.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
}
