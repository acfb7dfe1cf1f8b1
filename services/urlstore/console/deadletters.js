// Dead letters: records that could not be processed, newest first.

import { get, path } from "./api.js";
import { el } from "./dom.js";
import { bytes, counted, NOTHING, time } from "./format.js";
import { empty, facts, failure, fillWith, heading } from "./views.js";

const LIMIT = 50;

/** Value of a record as text; bytes that are none are shown in base64. */
function valueOf(letter) {
  const isText = letter.value !== null;
  const text = isText ? letter.value : letter.value_base64 ?? "";
  const length = isText ? new TextEncoder().encode(text).length : Math.floor((text.replaceAll("=", "").length * 3) / 4);
  const title = `Value${isText ? "" : " in base64"}${length < letter.value_bytes ? `, the first ${bytes(length)}` : ""}`;
  return [el("h3", null, title), el("pre", { class: "source", role: "group", tabindex: "0", "aria-label": "Value of the record" }, text)];
}

function item(letter) {
  const body = () => [
    facts([
      ["Dead letter", letter.id],
      ["Key", letter.key && el("code", null, letter.key)],
      ["Record", letter.topic && `${letter.topic}, partition ${letter.partition}, offset ${letter.offset}`],
      ["Size", bytes(letter.value_bytes)],
    ]),
    valueOf(letter),
  ];
  const details = el(
    "details",
    { class: "letter" },
    el(
      "summary",
      null,
      el("span", { class: "tabular" }, time(letter.at)),
      el("span", { class: "letter-service" }, letter.service || NOTHING),
      el("span", { class: "letter-reason" }, letter.reason || NOTHING),
      el("span", { class: "muted" }, letter.topic),
      el("span", { class: "muted tabular number" }, bytes(letter.value_bytes)),
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
