// The entries of a transcript: messages, calls that open, decisions, ends with their receipts.

import { diff, isDiff, ofCall } from "./diff.js";
import { el, icon, ICONS, line } from "./dom.js";
import { clock, count, duration, money, plural, WORDS } from "./format.js";
import { prose, reply } from "./markdown.js";
import { tasks } from "./task-store.js";

/** @typedef {import("./api.js").Call} Call */
/** @typedef {import("./api.js").Decision} Decision */
/** @typedef {import("./api.js").Fact} Fact */
/** @typedef {import("./api.js").Message} Message */
/** @typedef {import("./api.js").Outcome} Outcome */
/** @typedef {import("./api.js").Result} Result */
/** @typedef {import("./api.js").Status} Status */
/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./task-store.js").Task} Task */

const LONGEST = 20_000;
const MOST_FILES = 100;
const FEW_FILES = 8;
const TELLING = [
  "command",
  "file_path",
  "path",
  "pattern",
  "query",
  "url",
  "description",
  "prompt",
  "skill",
  "task_id",
  "message",
];
const CHANGES = ["content", "edits", "old_string", "new_string", "old_text", "new_text"];

/** @param {string} id */
export function taskLink(id) {
  const task = tasks.byId.get(id);
  return el(
    "a",
    { class: "tasklink", href: `#/task/${encodeURIComponent(id)}`, data: { status: task?.status ?? "" } },
    el("span", { class: "dot" }),
    el("span", { class: "name" }, task ? `${task.agent} · ${line(task.title, 60)}` : id),
  );
}

/** @param {string} text */
export function mono(text, kind = "") {
  const rest = text.length - LONGEST;
  return el(
    "pre",
    { class: `mono ${kind}`, tabindex: "0" },
    rest > 0 ? `${text.slice(0, LONGEST)}\n… ${rest.toLocaleString("en")} more characters` : text,
  );
}

/**
 * @param {string} kind
 * @param {string} at
 * @param {Child[]} children
 */
function block(kind, at, ...children) {
  const time = at ? el("time", { class: "at", datetime: at }, clock(Date.parse(at))) : null;
  return el("article", { class: `said ${kind}` }, time, ...children);
}

/**
 * @param {string} at
 * @param {Child[]} text
 */
export function marker(at, ...text) {
  return el(
    "div",
    { class: "marker" },
    el("span", {}, ...text),
    at ? el("time", { class: "at" }, clock(Date.parse(at))) : null,
  );
}

/**
 * @param {Message} message
 * @param {string} at
 * @param {string} [parent] The agent that sent it, where that is not a person.
 */
export function userMessage(message, at, parent = "") {
  const sender = message.sender ?? "user";
  const names = new Map([["user", parent || "You"], ["system", "GenCode"]]);
  const name = el(
    "div",
    { class: "who" },
    names.get(sender) ?? taskLink(sender),
    message.mail ? el("span", { class: "faint" }, " while it was running") : null,
  );
  if (sender === "user") return block("user", at, name, prose(message.text));
  if (sender === "system" && !message.mail && !message.delivers?.length)
    return block("note", at, el("details", {}, el("summary", {}, "Note to the model"), prose(message.text)));
  const told = reply(message.text, tasks.byId.get(sender)?.model);
  const text =
    message.text.length > 400 ? el("details", {}, el("summary", {}, line(message.text, 140)), told) : told;
  return block("other", at, name, text);
}

/**
 * @param {Message} message
 * @param {string} at
 * @param {string} agent
 * @param {CallEntry[]} calls
 */
export function assistantMessage(message, at, agent, calls) {
  const thinking = (message.thinking ?? [])
    .map((each) => each.text)
    .filter(Boolean)
    .join("\n\n");
  return block(
    "assistant",
    at,
    el(
      "div",
      { class: "who" },
      agent,
      message.partial ? el("span", { class: "faint" }, " (interrupted)") : null,
    ),
    thinking ? el("details", { class: "thinking" }, el("summary", {}, "Thinking"), prose(thinking)) : null,
    message.text ? reply(message.text, message.model) : null,
    calls.map((each) => each.element),
  );
}

/** @param {Call} call */
function summaryOf(call) {
  const given = call.input ?? {};
  const name = TELLING.find((each) => typeof given[each] === "string" && given[each]);
  if (name) return line(given[name], 140);
  return Object.keys(given).length ? line(JSON.stringify(given), 140) : "";
}

// A call: closed it is one line; open it shows the input, the decision, and the result.
export class CallEntry {
  /** @type {Result | null} */
  result = null;
  /** @type {Decision | null} */
  #decision = null;
  #state = el("span", { class: "state", "aria-label": "running" });
  #came = el("span", { class: "came" });
  #body = el("div", { class: "inside" });
  #details;
  #child = "";

  /** @param {Call} call */
  constructor(call) {
    this.call = call;
    this.#details = el(
      "details",
      { class: "call", data: { state: "runs" } },
      el(
        "summary",
        {},
        this.#state,
        el("b", { class: "tool" }, call.name),
        el("span", { class: "summary" }, summaryOf(call)),
        this.#came,
      ),
      this.#body,
    );
    // The link to an agent stands beside what opens, not in it: keys reach both.
    this.element = el("div", { class: "callrow" }, this.#details);
    this.#details.addEventListener("toggle", () => this.#draw());
    if (ofCall(call)) this.#details.open = true;
  }

  #draw() {
    if (!this.#details.open) return;
    this.#body.replaceChildren(...input(this.call, this.result), ...decided(this.#decision), ...output(this.result, this.call));
  }

  /** @param {Result} result */
  finish(result) {
    this.result = result;
    this.#details.dataset.state = result.error ? "error" : "done";
    this.#state.setAttribute("aria-label", result.error ? "failed" : "done");
    const [ran] = (result.trace?.commands ?? []).filter((each) => !each.shell);
    if (ran) this.#came.textContent = ran.exit === null ? "stopped" : `exit ${ran.exit}`;
    else if (result.error) this.#came.textContent = line(result.text, 80);
    this.#draw();
  }

  /** @param {Decision} decision */
  decide(decision) {
    this.#decision = decision;
    if (decision.action !== "allow") this.#details.dataset.decision = decision.action;
    this.#draw();
  }

  /**
   * Shows how the agent is that this call started, also when it continues in the background.
   * @param {Task} child
   */
  follow(child) {
    if (this.result?.error) return;
    const time = child.ended === null ? "" : ` · ${duration(child.worked)}`;
    const text = `${WORDS[child.status]}${time}`;
    if (this.#child === `${child.id} ${text}`) return;
    this.#child = `${child.id} ${text}`;
    this.element.querySelector(":scope > a")?.remove();
    this.element.append(
      el(
        "a",
        { class: "tasklink", href: `#/task/${child.id}`, data: { status: child.status } },
        el("span", { class: "dot" }),
        text,
      ),
    );
  }
}

/**
 * @param {Call} call
 * @param {Result | null} result
 */
function input(call, result) {
  const given = { ...call.input };
  const changes = ofCall(call, result?.trace?.lines);
  if (changes) for (const each of CHANGES) delete given[each];
  const entries = Object.entries(given);
  const fields = entries.map(([name, value]) => [
    el("dt", {}, name),
    el("dd", {}, mono(typeof value === "string" ? value : JSON.stringify(value, null, 2))),
  ]);
  return [
    ...(entries.length ? [el("dl", { class: "given" }, fields)] : []),
    ...(changes ? [changes] : []),
    ...(call.broken ? [el("p", { class: "bad" }, "The input is not valid JSON:"), mono(call.broken)] : []),
  ];
}

/** @param {Decision | null} decision */
function decided(decision) {
  if (!decision) return [];
  const { action, why, rule, policy } = decision;
  const words = new Map([["allow", "Allowed"], ["ask", "Needs approval"], ["deny", "Denied"]]);
  const by = [rule ? `rule ${rule}` : "", policy ? `policy ${policy}` : ""].filter(Boolean).join(", ");
  return [
    el(
      "p",
      { class: "decided", data: { action } },
      el("b", {}, words.get(action) ?? action),
      ` ${why}`,
      by ? el("span", { class: "faint" }, ` (${by})`) : null,
    ),
  ];
}

/**
 * @param {Result | null} result
 * @param {Call} call
 */
function output(result, call) {
  if (!result) return [];
  const { children = [], read = [], changed = [], commands = [] } = result.trace ?? {};
  /** @type {HTMLElement[]} */
  const parts = [];
  if (result.text && isDiff(result.text)) parts.push(diff(result.text));
  else if (result.text && call.name === "Task") parts.push(reply(result.text, tasks.byId.get(children[0] ?? "")?.model));
  else if (result.text) parts.push(mono(result.text, result.error ? "bad" : ""));
  if (children.length) parts.push(el("p", { class: "links" }, children.map(taskLink)));
  const seen = [
    read.length ? `read ${plural(read.length, "file")}` : "",
    ...changed.map((each) =>
      each.sha256 ? `changed ${each.path} (sha256 ${each.sha256.slice(0, 12)})` : `removed ${each.path}`,
    ),
    ...commands.map((each) => `ran ${line(each.command, 60)} (${exitOf(each.exit)})`),
  ].filter(Boolean);
  if (seen.length) parts.push(el("p", { class: "seen" }, el("b", {}, "Recorded: "), seen.join(" · ")));
  return parts;
}

/** @param {number | null} exit */
function exitOf(exit) {
  return exit === null ? "not finished" : `exit ${exit}`;
}

// How a run ended; the receipt is added once the figures as of that end are read.
export class EndEntry {
  #isComplete = false;

  /** @param {Fact} fact */
  constructor(fact) {
    this.seq = fact.seq ?? 0;
    const status = /** @type {Status} */ (fact.status);
    const word = WORDS[status] ?? status;
    this.element = el(
      "section",
      { class: "end", data: { status }, "aria-label": "Result" },
      el(
        "p",
        { class: "line" },
        el("span", { class: "dot" }),
        el("b", {}, word[0].toUpperCase() + word.slice(1)),
        el("time", { class: "at" }, clock(Date.parse(fact.at))),
      ),
      fact.error && status !== "completed" ? el("p", { class: "why" }, fact.error) : null,
    );
  }

  /** @param {(seq: number) => Promise<Outcome>} read */
  async complete(read) {
    if (this.#isComplete) return;
    this.#isComplete = true;
    const outcome = await read(this.seq).catch(() => null);
    if (outcome) this.element.append(receipt(outcome));
  }
}

/** @param {Outcome} outcome */
function receipt({ turns, usage, evidence, durationMs }) {
  const { toolCalls, filesRead, filesChanged, commands, warnings, refused = [] } = evidence;
  const { inputTokens, outputTokens } = usage;
  const figures = [
    plural(turns, "turn"),
    plural(toolCalls, "tool call"),
    inputTokens + outputTokens ? `${count(inputTokens)} tokens in, ${count(outputTokens)} out` : "",
    money(usage.usd),
    duration(durationMs),
  ].filter(Boolean);
  const changed = filesChanged.map((each) => [
    each.path,
    el("span", { class: "faint" }, each.sha256 ? ` ${each.sha256.slice(0, 12)}` : " removed"),
  ]);
  const ran = commands.map((each) => [
    line(each.command, 160),
    el("span", { class: each.exit ? "bad" : "faint" }, ` ${exitOf(each.exit)}`),
  ]);
  return el(
    "div",
    { class: "receipt" },
    el("p", { class: "figures" }, el("b", {}, "Receipt"), ` ${figures.join(" · ")}`),
    group(`Changed ${plural(changed.length, "file")}`, changed, changed.length <= FEW_FILES),
    group(`Ran ${plural(ran.length, "command")}`, ran, ran.length <= FEW_FILES),
    group(`Read ${plural(filesRead.length, "file")}`, filesRead, false),
    refused.map((each) =>
      el("p", { class: "warning" }, `Refused: ${each.tool}(${each.summary}): ${each.why}`),
    ),
    warnings.map((each) => el("p", { class: "warning" }, each)),
  );
}

/**
 * @param {string} title
 * @param {Child[]} items
 * @param {boolean} open
 */
function group(title, items, open) {
  if (!items.length) return null;
  const rest = items.length - MOST_FILES;
  return el(
    "details",
    { open },
    el("summary", {}, title),
    el(
      "ul",
      { class: "files" },
      items.slice(0, MOST_FILES).map((each) => el("li", {}, each)),
      rest > 0 ? el("li", { class: "faint" }, `and ${rest} more`) : null,
    ),
  );
}

/**
 * A message that waits to be read.
 * @param {string} who
 * @param {string} how
 * @param {string} text
 */
export function pendingMessage(who, how, text) {
  return el(
    "article",
    { class: "unheard" },
    el("div", { class: "who" }, who, el("span", { class: "faint" }, ` ${how}`)),
    prose(text),
  );
}

/**
 * @param {"Fork" | "Rewind"} verb
 * @param {() => void} act
 */
export function branchButton(verb, act) {
  const says = verb === "Fork" ? "Fork at this point" : "Rewind to before this prompt";
  return el(
    "button",
    { type: "button", class: "quiet fork", title: says, "aria-label": says, on: { click: act } },
    icon(ICONS.fork),
    verb === "Fork" ? "Fork here" : "Rewind",
  );
}
