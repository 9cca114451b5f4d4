// A chart over time: stacked columns in SVG, with an axis and the figures of the column under the pointer.

import { el, put, svg } from "./dom.js";
import { moment } from "./format.js";

/**
 * @typedef {{ at: number, values: number[] }} Piece
 *
 * @typedef {object} ChartOptions
 * @property {Piece[]} pieces
 * @property {string[]} kinds The names of the values, from the bottom up.
 * @property {number} from
 * @property {number} to
 * @property {number} step
 * @property {(value: number) => string} shown
 * @property {string} label
 */

const HIGH = 200;
const LEFT = 52;
const BOTTOM = 24;
const TOP = 10;

/**
 * The next round number, whose half is round, too.
 * @param {number} most
 */
function nice(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((each) => each * power).find((each) => each >= most) ?? most;
}

/**
 * Each part with its label, without those that would have the same label as another.
 * @param {number[]} parts
 * @param {(part: number) => string} labelOf
 */
function labelled(parts, labelOf) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const part of parts.toReversed()) if (!found.has(labelOf(part))) found.set(labelOf(part), part);
  return [...found].map(([text, part]) => ({ part, text }));
}

/** @param {ChartOptions} options */
export function chart({ pieces, kinds, from, to, step, shown, label }) {
  const room = Math.max(300, Math.min(620, document.documentElement.clientWidth - 70));
  const sum = (/** @type {Piece} */ piece) => piece.values.reduce((one, other) => one + other, 0);
  const most = nice(Math.max(0, ...pieces.map(sum)));
  const across = (/** @type {number} */ at) => LEFT + ((at - from) / (to - from)) * (room - LEFT - 6);
  const up = (/** @type {number} */ value) => HIGH - BOTTOM - (value / most) * (HIGH - BOTTOM - TOP);
  const reading = el("p", { class: "reading", "aria-live": "off" }, " ");
  const wide = Math.max(2, across(from + step) - across(from) - 1.5);
  const tone = Math.max(0, 3 - kinds.length);
  const columns = pieces.map((piece) => {
    let floor = 0;
    const figures = kinds.map((kind, place) => `${shown(piece.values[place])} ${kind}`);
    const text = `${moment(piece.at)}: ${figures.join(", ")}`;
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
  const lines = labelled([0, 0.5, 1], (part) => shown(part * most)).map(({ part, text }) => [
    svg("line", { class: "grid", x1: LEFT, x2: room - 6, y1: up(part * most), y2: up(part * most) }),
    svg("text", { x: LEFT - 8, y: up(part * most) + 4, "text-anchor": "end" }, text),
  ]);
  const quarters = labelled([0, 0.25, 0.5, 0.75, 1], (part) => moment(from + part * (to - from)));
  const times = quarters.map(({ part, text }) => {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    return svg("text", { x: across(from + part * (to - from)), y: HIGH - 6, "text-anchor": anchor }, text);
  });
  const legend = kinds.map((kind, place) =>
    el("span", { class: "swatch" }, el("i", { class: `kind-${place + tone}` }), kind),
  );
  return el(
    "figure",
    { class: "plot" },
    svg("svg", { viewBox: `0 0 ${room} ${HIGH}`, role: "img", "aria-label": label }, lines, columns, times),
    el("figcaption", {}, el("b", {}, label), legend, reading),
  );
}
