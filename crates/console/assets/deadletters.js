// Dead letters: records that could not be processed, newest first.

import { get, path } from "./api.js";
import { el } from "./dom.js";
import { bytes, counted, NOTHING, time } from "./format.js";
import { empty, facts, failure, fillWith, heading } from "./views.js";

const LIMIT = 50;

function item(letter) {
  const headers = letter.headers ?? {};
  const length = new TextEncoder().encode(letter.value ?? "").length;
  const body = () => [
    facts([["Key", letter.key && el("code", null, letter.key)], ["Record", `partition ${letter.partition}, offset ${letter.offset}`], ["Size", bytes(letter.bytes)]]),
    el("h3", null, "Headers"),
    facts(Object.entries(headers).map(([name, value]) => [name, String(value)])),
    el("h3", null, length < letter.bytes ? `Value, the first ${bytes(length)}` : "Value"),
    el("pre", { class: "source", role: "group", tabindex: "0", "aria-label": "Value of the record" }, letter.value ?? ""),
  ];
  const details = el(
    "details",
    { class: "letter" },
    el(
      "summary",
      null,
      el("span", { class: "tabular" }, time(letter.time)),
      el("span", { class: "letter-service" }, headers.service ?? NOTHING),
      el("span", { class: "letter-reason" }, headers.reason ?? headers.error ?? NOTHING),
      el("span", { class: "muted" }, headers.topic ?? ""),
      el("span", { class: "muted tabular number" }, bytes(letter.bytes)),
    ),
  );
  // The body is made when it is first opened: a list of a thousand stays light.
  details.addEventListener("toggle", () => details.append(el("div", { class: "letter-body" }, body())), { once: true });
  return el("li", null, details);
}

/** Shows the page. */
export function show(main, { signal }) {
  const body = el("div", { class: "stack", id: "dead-letters" });
  const request = (cursor) => get(path("/v1/dead-letters", { limit: LIMIT, cursor }), signal);
  main.append(heading("Dead letters"), el("p", { class: "lead" }, "Records that a stage could not process. They are kept, and the crawl continues without them."), body);
  fillWith(body, signal, () => request(null), (answer) => {
    if (answer.dead_letters.length === 0 && answer.next === null) return empty("No dead letters", "All records were processed.");
    const list = el("ol", { class: "letters card" });
    const shown = el("span", { class: "muted", role: "status" });
    const problem = el("div");
    const more = el("button", { type: "button", id: "more-letters" }, "Older ones");
    const append = ({ dead_letters: letters, next }) => {
      list.append(...letters.map(item));
      shown.textContent = `${counted(list.children.length, "dead letter")}${next === null ? "" : ", older ones follow"}`;
      more.hidden = next === null;
      more.onclick = async () => {
        more.disabled = true;
        problem.replaceChildren();
        const focused = list.children.length;
        try {
          append(await request(next));
          if (more.hidden) list.children[focused]?.querySelector("summary")?.focus();
        } catch (error) {
          if (!signal.aborted) problem.append(failure(error));
        }
        more.disabled = false;
      };
    };
    append(answer);
    return [list, problem, el("div", { class: "pager" }, more, shown)];
  });
}
