// Overview: state, rate, stages, outcomes, and the control of the crawl.

import { write } from "./api.js";
import { chart, ratesOf } from "./chart.js";
import { announce, el, keyed, pageLink, setText } from "./dom.js";
import { bytes, count, duration, rate, sentence, time } from "./format.js";
import { allows, live, onChange } from "./live.js";
import { outcomes } from "./outcomes.js";
import { stages } from "./stages.js";
import { empty, failure, heading, loading, section } from "./views.js";

const ENDINGS = {
  complete: "Complete: nothing is left to do",
  asleep: "All visits that were due are made",
  max_pages: "Ended at --max-pages",
  capped: "Ended at --max-bytes or --until",
  max_time: "Ended at --max-time",
  interrupted: "Stopped by the user",
  failed: "Failed: the log or the store failed",
};

function figure(name) {
  const [value, note] = [el("span", { class: "figure-value" }), el("span", { class: "figure-note" })];
  const element = el("div", { class: "figure" }, el("dt", null, name), el("dd", null, value, note));
  return { element, set: (text, small = "") => (setText(value, text), setText(note, small)) };
}

/** Button that sends an action, and is busy until the crawl has the state or the request has failed. */
function control(report) {
  const toggle = el("button", { type: "button", id: "pause" });
  const stop = el("button", { type: "button", id: "stop", class: "quiet-danger" }, "Stop…");
  const element = el("div", { class: "controls" }, toggle, stop);
  let wanted = null;

  async function send(action, state) {
    if (wanted !== null) return;
    wanted = state;
    draw();
    try {
      await write("POST", `/v1/crawl/${action}`, {});
      report(null);
      announce(state === "paused" ? "Pausing" : state === "running" ? "Resuming" : "Stopping");
    } catch (error) {
      wanted = null;
      report(error);
    }
    draw();
  }

  function draw() {
    const state = live.crawl?.state;
    if (wanted !== null && (state === wanted || state === "stopping" || state === "ended")) wanted = null;
    const isPaused = state === "paused";
    const busy = wanted !== null;
    setText(toggle, wanted === "paused" ? "Pausing…" : wanted === "running" ? "Resuming…" : isPaused ? "Resume" : "Pause");
    toggle.hidden = !allows(isPaused ? "resume" : "pause") || state === "stopping";
    stop.hidden = !allows("stop") || state === "stopping";
    for (const button of [toggle, stop]) button.setAttribute("aria-disabled", String(busy));
  }

  toggle.addEventListener("click", () => (live.crawl?.state === "paused" ? send("resume", "running") : send("pause", "paused")));
  stop.addEventListener("click", () => {
    if (wanted !== null) return;
    const dialog = document.getElementById("stop-dialog");
    dialog.returnValue = "";
    dialog.addEventListener("close", () => dialog.returnValue === "stop" && send("stop", "stopping"), { once: true });
    dialog.showModal();
  });
  return { element, draw };
}

function whyText(crawl) {
  if (crawl.state === "ended") return ENDINGS[crawl.ended_by] ?? (crawl.ended_by ? `Ended: ${crawl.ended_by}` : "Ended");
  if (crawl.state === "paused") return "Paused: requests in flight are finished, and no new ones are sent";
  return sentence(crawl.why);
}

function busiest() {
  const list = el("ol", { class: "ranks" });
  const none = el("p", { class: "muted" }, "No site has queued URLs.");
  const make = () => {
    const [name, number, bar] = [el("span"), el("span", { class: "number" }), el("span", { class: "bar", "aria-hidden": "true" })];
    const link = el("a", { class: "url" }, name);
    return {
      element: el("li", null, link, number, bar),
      update({ site, queued, most }) {
        link.setAttribute("href", pageLink("sites", { site }, "").getAttribute("href"));
        setText(name, site);
        setText(number, count(queued));
        bar.style.setProperty("--part", String(most ? queued / most : 0));
      },
    };
  };
  return {
    element: section("Busiest sites", list, none),
    draw(crawl) {
      const top = (crawl.busiest ?? []).slice(0, 8);
      none.hidden = top.length > 0;
      keyed(list, top.map((item) => ({ ...item, most: top[0].queued })), (item) => item.site, make);
    },
  };
}

function figures() {
  const all = {
    rate: figure("Pages per second"),
    pages: figure("Pages"),
    queued: figure("Queued"),
    flight: figure("In flight"),
    sites: figure("Sites"),
    bytes: figure("Received"),
    elapsed: figure("Elapsed"),
  };
  const draw = (crawl) => {
    const { urls } = crawl;
    const isEnded = crawl.state === "ended";
    all.rate.set(rate(isEnded ? urls.fetched / crawl.elapsed_seconds : crawl.pages_per_second), isEnded ? "mean of the crawl" : "mean of 5 s");
    all.pages.set(count(urls.fetched), urls.unchanged ? `${count(urls.unchanged)} unchanged` : "");
    all.queued.set(count(crawl.queued), crawl.asleep ? `${count(crawl.asleep)} asleep` : "");
    all.flight.set(count(crawl.in_flight));
    all.sites.set(count(crawl.sites), crawl.blocked?.count ? `${count(crawl.blocked.count)} blocked` : "");
    all.bytes.set(bytes(urls.bytes), urls.fetched ? `${bytes(urls.bytes / urls.fetched)} per page` : "");
    all.elapsed.set(duration(crawl.elapsed_seconds), crawl.next_due_at ? `next visit ${time(crawl.next_due_at)}` : "");
  };
  return { element: el("dl", { class: "figures" }, Object.values(all).map(({ element }) => element)), draw };
}

/** Shows the page. */
export function show(main, { signal }) {
  const problem = el("div", { id: "control-problem" });
  const controls = control((error) => problem.replaceChildren(...(error ? [failure(error)] : [])));
  const why = el("p", { class: "why", id: "why" });
  const body = el("div", { class: "stack" }, loading());
  const parts = { figures: figures(), stages: stages(), outcomes: outcomes(), busiest: busiest() };
  const speed = chart("Pages per second", rate);
  const queue = chart("Queued URLs", count);
  const charts = el("section", { class: "card charts", "aria-label": "History" }, speed.element, queue.element);
  let isDrawn = false;

  function draw() {
    const { crawl } = live;
    if (!crawl) {
      if (live.connection === "unavailable") body.replaceChildren(empty("No crawl", "This server has no figures of a crawl."));
      else if (live.error) body.replaceChildren(failure(live.error));
      return;
    }
    if (!isDrawn) {
      const columns = el("div", { class: "columns" }, parts.outcomes.element, parts.busiest.element);
      body.replaceChildren(parts.figures.element, charts, parts.stages.element, columns);
      isDrawn = true;
    }
    setText(why, whyText(crawl));
    controls.draw();
    for (const part of Object.values(parts)) part.draw(crawl);
    charts.hidden = live.history.length === 0;
    parts.busiest.element.hidden = (crawl.busiest ?? []).length === 0 && crawl.state === "ended";
    if (!charts.hidden) {
      speed.draw(ratesOf(live.history));
      queue.draw(live.history.map(([second, , queued]) => [second, queued]));
    }
  }

  main.append(heading("Overview", controls.element), why, problem, body);
  onChange(draw, signal);
  draw();
}

