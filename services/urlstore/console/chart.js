// Small line chart as SVG, with a readout at the pointer.

import { el, setText, svg } from "./dom.js";
import { clock, shortDuration } from "./format.js";

const HEIGHT = 148;
const MARGIN = { top: 10, right: 8, bottom: 22, left: 44 };
const LONGEST = 300;
const TICK_WIDTH = 60;
const STEPS = [15, 30, 60, 120];

/** A round number at or above a value: 1, 2, 2.5 or 5 times a power of ten. */
export function roundAbove(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= value * 0.999999);
}

/** Mean change per second over the last `width` seconds at each point. */
export function ratesOf(history, width = 5) {
  const rates = [];
  let first = 0;
  for (let last = 1; last < history.length; last += 1) {
    while (history[last][0] - history[first][0] > width && first < last - 1) first += 1;
    const seconds = history[last][0] - history[first][0];
    if (seconds > 0) rates.push([history[last][0], Math.max(0, (history[last][1] - history[first][1]) / seconds)]);
  }
  return rates;
}

/** Makes a chart. `draw` takes points of `[second, value]`. */
export function chart(title, format) {
  const picture = svg("svg", { class: "chart", role: "img", height: HEIGHT });
  const value = el("span", { class: "chart-value" });
  const element = el("figure", { class: "chart-box" }, el("figcaption", null, el("span", null, title), value), picture);
  let points = [];
  let pointer = null;

  function scales() {
    const width = Math.max(160, picture.clientWidth || element.clientWidth || 320);
    const last = points.at(-1)?.[0] ?? 0;
    const span = Math.min(LONGEST, Math.max(60, last - (points[0]?.[0] ?? last)));
    const top = roundAbove(points.reduce((most, [, y]) => Math.max(most, y), 0));
    const [left, right, bottom] = [MARGIN.left, width - MARGIN.right, HEIGHT - MARGIN.bottom];
    return {
      width, left, right, bottom, top, span, last,
      x: (second) => right - ((last - second) / span) * (right - left),
      y: (amount) => bottom - (amount / top) * (bottom - MARGIN.top),
    };
  }

  function grid(scale) {
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      const y = scale.y(scale.top * part);
      parts.push(svg("line", { class: "grid", x1: scale.left, x2: scale.right, y1: y, y2: y }));
      parts.push(svg("text", { class: "tick", x: scale.left - 8, y: y + 4, "text-anchor": "end" }, format(scale.top * part)));
    }
    const wanted = (TICK_WIDTH * scale.span) / (scale.right - scale.left);
    const step = STEPS.find((seconds) => seconds >= wanted) ?? scale.span;
    for (let ago = 0; ago <= scale.span; ago += step) {
      const label = ago === 0 ? "now" : `−${shortDuration(ago)}`;
      const anchor = ago === 0 ? "end" : scale.x(scale.last - ago) < scale.left + TICK_WIDTH / 3 ? "start" : "middle";
      parts.push(svg("text", { class: "tick", x: scale.x(scale.last - ago), y: HEIGHT - 6, "text-anchor": anchor }, label));
    }
    return parts;
  }

  function line(scale) {
    const shown = points.filter(([second]) => second >= scale.last - scale.span);
    if (shown.length < 2) return [];
    const path = shown.map(([second, amount]) => `${scale.x(second).toFixed(1)} ${scale.y(amount).toFixed(1)}`).join("L");
    const area = `M${scale.x(shown[0][0]).toFixed(1)} ${scale.bottom}L${path}L${scale.x(shown.at(-1)[0]).toFixed(1)} ${scale.bottom}Z`;
    return [svg("path", { class: "area", d: area }), svg("path", { class: "line", d: `M${path}` })];
  }

  function redraw() {
    const scale = scales();
    const near = pointer === null ? null : nearest(scale);
    const marks = near && [
      svg("line", { class: "cross", x1: scale.x(near[0]), x2: scale.x(near[0]), y1: MARGIN.top, y2: scale.bottom }),
      svg("circle", { class: "dot", cx: scale.x(near[0]), cy: scale.y(near[1]), r: 3.5 }),
    ];
    picture.setAttribute("viewBox", `0 0 ${scale.width} ${HEIGHT}`);
    picture.replaceChildren(...grid(scale), ...line(scale), ...(marks ?? []));
    const latest = points.at(-1);
    const most = points.reduce((high, [, y]) => Math.max(high, y), 0);
    setText(value, near ? `${format(near[1])} at ${clock(near[0])}` : latest ? `highest ${format(most)}` : "no history");
    picture.setAttribute("aria-label", latest ? `${title}: now ${format(latest[1])}, highest ${format(most)}` : `${title}: no history`);
  }

  function nearest(scale) {
    const second = scale.last - ((scale.right - pointer) / (scale.right - scale.left)) * scale.span;
    return points.reduce((best, point) => (best === null || Math.abs(point[0] - second) < Math.abs(best[0] - second) ? point : best), null);
  }

  picture.addEventListener("pointermove", (event) => {
    pointer = event.clientX - picture.getBoundingClientRect().left;
    redraw();
  });
  picture.addEventListener("pointerleave", () => {
    pointer = null;
    redraw();
  });
  new ResizeObserver(redraw).observe(element);
  return {
    element,
    draw(next) {
      points = next;
      redraw();
    },
  };
}
