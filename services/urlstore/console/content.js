// Archived content of a URL: its source, a preview that runs nothing, and downloads.

import { path, Problem, send } from "./api.js";
import { el } from "./dom.js";
import { bytes, fileName, reasonWords, time } from "./format.js";
import { previewOf } from "./preview.js";
import { empty, failure, fillWith, section } from "./views.js";

/** Bytes that are shown; a download has all of them. */
const MAX_SHOWN_BYTES = 512 * 1024;

/** Encoding that the type names; else UTF-8. */
export function decoderFor(type) {
  const label = /charset\s*=\s*["']?([\w.:-]+)/i.exec(type ?? "")?.[1];
  try {
    return new TextDecoder(label ?? "utf-8");
  } catch {
    return new TextDecoder("utf-8");
  }
}

/** Whether a content is shown as text. */
export function isText(type, start) {
  if (/^\s*(text\/|[^;]*\b(json|xml|javascript|ecmascript)\b)/i.test(type ?? "")) return true;
  return !start.subarray(0, 1024).includes(0) && !/^\s*(image|audio|video|font)\//i.test(type ?? "");
}

function isHtml(type, text) {
  if (/^\s*(text\/html|application\/xhtml\+xml)/i.test(type ?? "")) return true;
  return !type && /^\s*(<!doctype html|<html)/i.test(text);
}

/** Reads the start of a body, and ends the transfer behind it. */
async function startOf(response) {
  const reader = response.body.getReader();
  const chunks = [];
  let length = 0;
  let isWhole = true;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    length += value.length;
    if (length > MAX_SHOWN_BYTES) {
      isWhole = false;
      reader.cancel().catch(() => {});
      break;
    }
  }
  const whole = new Uint8Array(await new Blob(chunks).arrayBuffer());
  return { start: whole.subarray(0, MAX_SHOWN_BYTES), isWhole };
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function downloadButton(text, target, name, problems) {
  const button = el("button", { type: "button" }, text);
  button.addEventListener("click", async () => {
    button.disabled = true;
    problems.replaceChildren();
    try {
      download(await (await send(target)).blob(), name);
    } catch (error) {
      problems.append(failure(error));
    }
    button.disabled = false;
    button.focus();
  });
  return button;
}

function tabs(views) {
  const panel = el("div", { class: "tab-panel", role: "tabpanel", id: "content-panel" });
  const buttons = views.map(({ name }) => el("button", { type: "button", role: "tab", id: `tab-${name.toLowerCase()}`, "aria-controls": "content-panel" }, name));
  const choose = (index) => {
    buttons.forEach((button, position) => {
      button.setAttribute("aria-selected", String(position === index));
      button.tabIndex = position === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[index].id);
    panel.replaceChildren(...views[index].make());
  };
  buttons.forEach((button, index) => {
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", ({ key }) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (!step) return;
      const next = (index + step + buttons.length) % buttons.length;
      choose(next);
      buttons[next].focus();
    });
  });
  choose(0);
  return [el("div", { role: "tablist", "aria-label": "Views of the content", class: "tabs" }, buttons), panel];
}

/** The main text as Markdown, as text: it is not rendered. */
function markdownOf(parameters, signal) {
  const text = el("pre", { class: "source", id: "content-markdown", role: "group", tabindex: "0", "aria-label": "Markdown of the content" });
  const body = el("div");
  fillWith(body, signal, async () => (await send(path("/v1/document", { ...parameters, as: "markdown" }), { signal })).text(), (markdown) => {
    if (markdown === "") return empty("No main text", "The page has navigation at most.");
    text.textContent = markdown.slice(0, MAX_SHOWN_BYTES);
    return [text];
  });
  return [body];
}

async function draw(response, parameters, signal) {
  const { start, isWhole } = await startOf(response);
  const header = (name) => response.headers.get(`x-orbweaver-${name}`);
  const type = header("content-type");
  const total = Number(response.headers.get("content-length"));
  const about = [
    header("status") && `HTTP ${header("status")}`,
    type,
    `fetched ${time(header("fetched-at"))}`,
    total > 0 && bytes(total),
    !isWhole && `the first ${bytes(MAX_SHOWN_BYTES)} are shown`,
    header("truncated") && `archived without its end: ${reasonWords(header("truncated"))}`,
  ].filter(Boolean);
  const note = el("p", { class: "muted", id: "content-about" }, about.join(" · "));
  if (start.length === 0) return [note, empty("The content is empty")];
  if (!isText(type, start)) return [note, empty("The content is not text", "It can be downloaded.")];
  const text = decoderFor(type).decode(start);
  const source = { name: "Source", make: () => [el("pre", { class: "source", id: "content-source", role: "group", tabindex: "0", "aria-label": "Source of the content" }, text)] };
  const preview = { name: "Preview", make: () => previewOf(text) };
  const markdown = { name: "Markdown", make: () => markdownOf(parameters, signal) };
  return [note, ...tabs(isHtml(type, text) ? [source, preview, markdown] : [source])];
}

/** Parts of the content. A file of the archive can be read once it is closed: of a running crawl, that is no failure. */
async function contentOf(parameters, signal) {
  try {
    return await draw(await send(path("/v1/content", parameters), { signal }), parameters, signal);
  } catch (error) {
    if (!(error instanceof Problem) || error.kind !== "file-missing") throw error;
    return [empty("Not readable yet", "Its file of the archive is still open, or was removed.")];
  }
}

/** Makes the section. */
export function contentSection(url, parameters, signal, hasCaptures) {
  const problems = el("div");
  const actions = el(
    "div",
    { class: "actions" },
    downloadButton("Download content", path("/v1/content", parameters), fileName(url, ""), problems),
    downloadButton("Download WARC record", path("/v1/content", { ...parameters, as: "record" }), fileName(url, "warc.gz"), problems),
  );
  const body = el("div", { id: "content" });
  if (!hasCaptures) return section("Content", empty("Not archived", "A crawl with --warc keeps all responses."));
  fillWith(body, signal, () => contentOf(parameters, signal), (parts) => parts);
  return section("Content", actions, problems, body);
}
