// Differences in colour: from the server's unified form, or from the texts of a call.

import { el } from "./dom.js";

const MOST = 2000;
const COMPARED = 250_000;

/** @param {string} text */
export function isDiff(text) {
  return /^@@ .* @@/m.test(text);
}

/**
 * A unified difference, line by line, with the numbers of the new text.
 * @param {string} text
 */
export function diff(text) {
  const made = el("div", { class: "diff", role: "group", "aria-label": "Changes", tabindex: "0" });
  const lines = text.split("\n");
  /** @type {number | null} */
  let number = null;
  for (const each of lines.slice(0, MOST)) {
    const hunk = /^@@ -\S+ \+(\d+)/.exec(each);
    if (hunk) {
      if (made.firstChild) made.append(row("hunk", "", "…"));
      number = Number(hunk[1]);
    } else if (each.startsWith("+")) {
      made.append(row("add", number, each));
      if (number !== null) number += 1;
    } else if (each.startsWith("-")) {
      made.append(row("del", "", each));
    } else if (each.startsWith(" ")) {
      made.append(row("same", number, each));
      if (number !== null) number += 1;
    } else {
      made.append(row("note", "", each));
    }
  }
  if (lines.length > MOST) made.append(row("note", "", `… ${lines.length - MOST} more lines`));
  return made;
}

/**
 * A line of a difference in somebody's text.
 * @param {string} text
 */
export function diffLine(text) {
  const kind = text.startsWith("+") ? "add" : text.startsWith("-") ? "del" : "same";
  return el("span", { class: `diffline ${kind}` }, `${text}\n`);
}

/**
 * @param {string} kind
 * @param {string | number | null} number
 * @param {string} text
 */
function row(kind, number, text) {
  return el(
    "div",
    { class: kind },
    el("span", { class: "at", "aria-hidden": "true" }, String(number ?? "")),
    el("span", { class: "text" }, text || " "),
  );
}

/**
 * What a call would change, as far as its arguments tell.
 * @param {import("./api.js").Call} call
 * @param {number[]} [starts] The line of the file at which each edit begins, once that is known.
 */
export function ofCall(call, starts = []) {
  const given = call.input ?? {};
  const edits = Array.isArray(given.edits) ? given.edits : [given];
  const shown = edits
    .filter((each) => typeof (each?.new_string ?? each?.new_text) === "string")
    .map((each, at) => {
      const lines = replaced(String(each.old_string ?? each.old_text ?? ""), String(each.new_string ?? each.new_text));
      return starts[at] ? `@@ -${starts[at]} +${starts[at]} @@\n${lines}` : lines;
    });
  if (shown.length) return diff(shown.join("\n"));
  if (call.name === "Write" && typeof given.content === "string") return diff(`@@ -0 +1 @@\n${marked("+", given.content)}`);
  return null;
}

/**
 * Two texts line by line; long ones are shown as a whole, since comparing them would take too long.
 * @param {string} before
 * @param {string} after
 */
function replaced(before, after) {
  const old = before.split("\n");
  const fresh = after.split("\n");
  if (old.length * fresh.length > COMPARED)
    return [...old.map((each) => `-${each}`), ...fresh.map((each) => `+${each}`)].join("\n");
  const alike = Array.from({ length: old.length + 1 }, () => new Uint16Array(fresh.length + 1));
  for (let one = old.length - 1; one >= 0; one -= 1) {
    for (let other = fresh.length - 1; other >= 0; other -= 1) {
      alike[one][other] =
        old[one] === fresh[other]
          ? alike[one + 1][other + 1] + 1
          : Math.max(alike[one + 1][other], alike[one][other + 1]);
    }
  }
  const lines = [];
  let one = 0;
  let other = 0;
  while (one < old.length || other < fresh.length) {
    if (one < old.length && other < fresh.length && old[one] === fresh[other]) {
      lines.push(` ${old[one]}`);
      one += 1;
      other += 1;
    } else if (
      one < old.length &&
      (other === fresh.length || alike[one + 1][other] >= alike[one][other + 1])
    ) {
      lines.push(`-${old[one]}`);
      one += 1;
    } else {
      lines.push(`+${fresh[other]}`);
      other += 1;
    }
  }
  return lines.join("\n");
}

/**
 * @param {string} mark
 * @param {string} text
 */
function marked(mark, text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((each) => `${mark}${each}`).join("\n");
}
