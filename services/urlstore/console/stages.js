// The row of stages with the lag of each.

import { el, keyed, setText } from "./dom.js";
import { count } from "./format.js";
import { section } from "./views.js";

/** Lag from which a stage is emphasised; below it, records are only on their way. */
const NOTABLE_LAG = 100;

function sum(lag) {
  return Object.values(lag ?? {}).reduce((total, value) => total + value, 0);
}

function makeStage() {
  const [name, total, unit] = [el("span", { class: "stage-name" }), el("span", { class: "stage-lag" }), el("span", { class: "stage-unit" })];
  const [bar, mark, topics] = [el("span", { class: "bar", "aria-hidden": "true" }), el("span", { class: "stage-mark" }, "largest lag"), el("dl", { class: "stage-topics" })];
  const makeTopic = () => {
    const [topic, lag] = [el("dt"), el("dd")];
    return { element: el("div", null, topic, lag), update: ([key, value]) => (setText(topic, key.replace(/^crawl\./, "")), setText(lag, count(value))) };
  };
  const element = el("li", { class: "stage" }, el("div", { class: "stage-head" }, name, mark), el("div", { class: "stage-total" }, total, unit), bar, topics);
  return {
    element,
    update({ stage, most }) {
      const lag = sum(stage.lag);
      const has = Object.keys(stage.lag ?? {}).length > 0;
      const isMost = lag > NOTABLE_LAG && lag === most;
      setText(name, stage.name);
      setText(total, has ? count(lag) : "–");
      setText(unit, has ? " behind" : " no topic");
      element.classList.toggle("is-most", isMost);
      mark.hidden = !isMost;
      // Lags differ by orders of magnitude.
      bar.style.setProperty("--part", String(most > 0 ? Math.log1p(lag) / Math.log1p(Math.max(most, NOTABLE_LAG)) : 0));
      keyed(topics, Object.entries(stage.lag ?? {}), ([key]) => key, makeTopic);
    },
  };
}

/** Makes the section; without stages it is hidden. */
export function stages() {
  const row = el("ol", { class: "stages" });
  const element = section("Stages", row);
  return {
    element,
    draw(crawl) {
      const all = crawl.stages ?? [];
      const most = all.reduce((high, stage) => Math.max(high, sum(stage.lag)), 0);
      element.hidden = all.length === 0;
      keyed(row, all.map((stage) => ({ stage, most })), ({ stage }) => stage.name, makeStage);
    },
  };
}
