// What models write, with the little formatting that helps reading. Nothing in it can be followed or run.

import { OFFLINE } from "./api.js";
import { el } from "./dom.js";
import { coloured } from "./syntax.js";

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,4}[.)])\s+(.*)$/;
const ROW = /^\s*\|.*\|\s*$/;
const QUOTE = /^\s{0,3}> ?(.*)$/;
const DEEPEST = 4;
const UNDER = /^\s*\|(\s*:?-+:?\s*\|)+\s*$/;
const INLINE = /(`+)([^`]+?)\1|\*\*([^*\n]+?)\*\*/g;
const LONGEST = 100_000;

/** @param {string} text */
export function prose(text) {
  const shown = text;
  const made = el("div", { class: "prose", dir: "auto" });
  blocks(made, shown.slice(0, LONGEST).split("\n"), 0);
  // Below the one of the view, and none left out, whatever was written.
  let last = 1;
  for (const each of made.querySelectorAll(".heading")) {
    last = Math.min(Number(each.getAttribute("aria-level")), last + 1);
    each.setAttribute("aria-level", String(last));
  }
  if (shown.length > LONGEST)
    made.append(
      el("p", { class: "faint" }, `… ${(shown.length - LONGEST).toLocaleString("en")} more characters`),
    );
  return made;
}

/**
 * The reply of a model. The search writes no Markdown, but lines of code: they stay as they are.
 * @param {string} text
 * @param {string | undefined} model
 */
export function reply(text, model) {
  if (model !== OFFLINE) return prose(text);
  return el("pre", { class: "mono verbatim", tabindex: "0" }, text.slice(0, LONGEST));
}

/**
 * The beginning of a text in one line, without the marks of headings, quotes, bold words and code.
 * @param {string} text
 */
export function unmarked(text) {
  return text.replace(/(^|\s)(#{1,6}|>)\s/g, "$1").replace(/\*\*|`+/g, "");
}

/**
 * @param {HTMLElement} made
 * @param {string[]} lines
 * @param {number} deep How many quotes it stands in.
 */
function blocks(made, lines, deep) {
  for (let place = 0; place < lines.length;) place = block(made, lines, place, deep);
}

/**
 * @param {HTMLElement} made
 * @param {string[]} lines
 * @param {number} place
 * @param {number} deep
 */
function block(made, lines, place, deep) {
  const text = lines[place];
  const fence = FENCE.exec(text);
  if (fence) return fenced(made, lines, place + 1, fence[1], fence[2]);
  if (QUOTE.test(text) && deep < DEEPEST) {
    return taken(made, lines, place, (each) => QUOTE.test(each), (found) => {
      const quote = el("blockquote", {});
      blocks(quote, found.map((each) => QUOTE.exec(each)?.[1] ?? each), deep + 1);
      return quote;
    });
  }
  const heading = HEADING.exec(text);
  if (heading) {
    made.append(
      el(
        "p",
        { class: "heading", role: "heading", "aria-level": heading[1].length + 1 },
        inline(heading[2]),
      ),
    );
    return place + 1;
  }
  if (ITEM.test(text)) return list(made, lines, place);
  if (ROW.test(text)) return taken(made, lines, place, (each) => ROW.test(each), table);
  if (!text.trim()) return place + 1;
  /** @param {string} each */
  const plain = (each) =>
    Boolean(each.trim()) && !(QUOTE.test(each) && deep < DEEPEST) && !FENCE.test(each) && !HEADING.test(each) && !ITEM.test(each) && !ROW.test(each);
  return taken(made, lines, place, plain, (found) => el("p", {}, inline(found.join("\n"))));
}

/**
 * @param {HTMLElement} made
 * @param {string[]} lines
 * @param {number} place
 * @param {(line: string) => boolean} fits
 * @param {(lines: string[]) => Node} drawn
 */
function taken(made, lines, place, fits, drawn) {
  let end = place;
  while (end < lines.length && fits(lines[end])) end += 1;
  made.append(drawn(lines.slice(place, end)));
  return Math.max(end, place + 1);
}

/** @param {string} row */
function cellsOf(row) {
  const cells = row
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/);
  return cells.map((each) => each.trim().replaceAll("\\|", "|"));
}

/**
 * Rows with a line under the first one are a table; others stay as they were written.
 * @param {string[]} rows
 */
function table(rows) {
  if (rows.length < 2 || !UNDER.test(rows[1])) return el("pre", { class: "rows" }, rows.join("\n"));
  const sides = cellsOf(rows[1]).map(sideOf);
  /** @type {(kind: "th" | "td") => (text: string) => Node} */
  const row = (kind) => (text) =>
    el(
      "tr",
      {},
      cellsOf(text).map((each, place) => el(kind, { data: { side: sides[place] ?? "" } }, inline(each))),
    );
  return el(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row("th")(rows[0])), el("tbody", {}, rows.slice(2).map(row("td")))),
  );
}

/** @param {string} under The cell below the head of a column, as `:--:`. */
function sideOf(under) {
  if (!under.endsWith(":")) return "";
  return under.startsWith(":") ? "center" : "right";
}

/**
 * @param {HTMLElement} made
 * @param {string[]} lines
 * @param {number} place
 * @param {string} mark
 * @param {string} language
 */
function fenced(made, lines, place, mark, language) {
  let end = place;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end += 1;
  const code = coloured(lines.slice(place, end).join("\n"), language);
  made.append(el("pre", { class: "code", tabindex: "0", role: "group", "aria-label": "Code" }, el("code", {}, code)));
  return end + 1;
}

/**
 * @param {HTMLElement} made
 * @param {string[]} lines
 * @param {number} place
 */
function list(made, lines, place) {
  const mark = ITEM.exec(lines[place])?.[2] ?? "-";
  const numbered = /\d/.test(mark);
  const items = el(numbered ? "ol" : "ul", numbered ? { start: parseInt(mark, 10) } : {});
  let end = place;
  for (let found = ITEM.exec(lines[end]); found; found = ITEM.exec(lines[end] ?? "")) {
    const item = el("li", {}, inline(found[3]));
    item.dataset.deep = String(Math.min(Math.floor(found[1].length / 2), 4));
    items.append(item);
    end += 1;
    while (
      end < lines.length &&
      /^\s{2,}\S/.test(lines[end]) &&
      !ITEM.test(lines[end]) &&
      !FENCE.test(lines[end])
    ) {
      item.append(" ", ...inline(lines[end].trim()));
      end += 1;
    }
  }
  made.append(items);
  return end;
}

/** @param {string} text */
function inline(text) {
  /** @type {(string | Node)[]} */
  const parts = [];
  let place = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(place, found.index));
    parts.push(found[2] === undefined ? el("strong", {}, found[3]) : el("code", {}, found[2]));
    place = found.index + found[0].length;
  }
  parts.push(text.slice(place));
  return parts;
}
