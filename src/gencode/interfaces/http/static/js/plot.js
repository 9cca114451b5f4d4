// A plot over time: stacked columns in SVG, with an axis and a reading for whoever points at it.

import { el, put, svg } from "./dom.js";
import { moment } from "./format.js";

const HIGH = 200;
const LEFT = 52;
const BOTTOM = 24;
const TOP = 10;

function nice(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= most) ?? most;
}

// Each part with its words, without those that would say the same as another.
function once(parts, words) {
  const found = new Map();
  for (const part of parts.toReversed()) if (!found.has(words(part))) found.set(words(part), part);
  return [...found].map(([text, part]) => [part, text]);
}

// `pieces` have `at` and `values`; `kinds` name the values from the bottom up.
export function plot({ pieces, kinds, from, to, step, shown, label }) {
  const room = Math.max(300, Math.min(620, document.documentElement.clientWidth - 70));
  const sum = (piece) => piece.values.reduce((one, other) => one + other, 0);
  const most = nice(Math.max(0, ...pieces.map(sum)));
  const across = (at) => LEFT + ((at - from) / (to - from)) * (room - LEFT - 6);
  const up = (value) => HIGH - BOTTOM - (value / most) * (HIGH - BOTTOM - TOP);
  const reading = el("p", { class: "reading", "aria-live": "off" }, " ");
  const wide = Math.max(2, across(from + step) - across(from) - 1.5);
  const tone = Math.max(0, 3 - kinds.length);
  const columns = pieces.map((piece) => {
    let floor = 0;
    const text = `${moment(piece.at)}: ${kinds.map((kind, place) => `${shown(piece.values[place])} ${kind}`).join(", ")}`;
    const parts = piece.values.map((value, place) => {
      const rect = svg("rect", {
        class: `kind-${place + tone}`,
        x: across(piece.at),
        y: up(floor + value),
        width: wide,
        height: Math.max(0, up(floor) - up(floor + value)),
        rx: 1,
      });
      floor += value;
      return rect;
    });
    return svg(
      "g",
      { class: "column", on: { pointerenter: () => put(reading, text) } },
      svg("title", {}, text),
      svg("rect", { class: "touch", x: across(piece.at), y: TOP, width: wide, height: HIGH - BOTTOM - TOP }),
      parts,
    );
  });
  const lines = once([0, 0.5, 1], (part) => shown(part * most)).map(([part, text]) => [
    svg("line", { class: "grid", x1: LEFT, x2: room - 6, y1: up(part * most), y2: up(part * most) }),
    svg("text", { x: LEFT - 8, y: up(part * most) + 4, "text-anchor": "end" }, text),
  ]);
  const times = once([0, 0.25, 0.5, 0.75, 1], (part) => moment(from + part * (to - from))).map(
    ([part, text]) =>
      svg(
        "text",
        {
          x: across(from + part * (to - from)),
          y: HIGH - 6,
          "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle",
        },
        text,
      ),
  );
  return el(
    "figure",
    { class: "plot" },
    svg("svg", { viewBox: `0 0 ${room} ${HIGH}`, role: "img", "aria-label": label }, lines, columns, times),
    el(
      "figcaption",
      {},
      el("b", {}, label),
      kinds.map((kind, place) =>
        el("span", { class: "swatch" }, el("i", { class: `kind-${place + tone}` }), kind),
      ),
      reading,
    ),
  );
}
