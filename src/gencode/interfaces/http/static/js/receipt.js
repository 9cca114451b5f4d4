// The receipt of a task: what GenCode saw it do, whatever it says about itself.

import { el, line } from "./dom.js";
import { count, duration, money, plural } from "./format.js";

const MOST = 100;

export function receipt(task) {
  const { toolCalls, filesRead, filesChanged, commands, warnings, refused = [] } = task.evidence;
  const figures = [
    plural(task.turns, "turn"),
    plural(toolCalls, "tool call"),
    `${count(task.usage.inputTokens)} tokens in`,
    `${count(task.usage.outputTokens)} out`,
    money(task.usage.usd),
    duration(task.worked),
  ].filter(Boolean);
  return el(
    "div",
    { class: "receipt" },
    el("p", { class: "figures" }, el("b", {}, "Receipt"), ` ${figures.join(" · ")}`),
    group(
      "changed",
      filesChanged,
      (each) => [
        each.path,
        el("span", { class: "faint" }, each.sha256 ? ` ${each.sha256.slice(0, 12)}` : " removed"),
      ],
      true,
    ),
    group(
      "ran",
      commands,
      (each) => [
        line(each.command, 160),
        el("span", { class: each.exit ? "bad" : "faint" }, ` exit ${each.exit ?? "none"}`),
      ],
      true,
    ),
    group("read", filesRead, (each) => [each], false),
    refused.map((each) => el("p", { class: "warning" }, `Refused: ${each.tool}(${each.summary}): ${each.why}`)),
    warnings.map((each) => el("p", { class: "warning" }, each)),
  );
}

function group(word, items, drawn, open) {
  if (!items.length) return null;
  const list = el(
    "ul",
    { class: "files" },
    items.slice(0, MOST).map((each) => el("li", {}, drawn(each))),
  );
  if (items.length > MOST) list.append(el("li", { class: "faint" }, `and ${items.length - MOST} more`));
  const what = word === "ran" ? plural(items.length, "command") : plural(items.length, "file");
  return el("details", { open: open && items.length <= 8 }, el("summary", {}, `${word} ${what}`), list);
}
