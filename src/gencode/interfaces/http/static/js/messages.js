// One fact of a task as something to read: words, calls that open, decisions, ends.

import { diff, isDiff, ofCall } from "./diff.js";
import { el, icon, ICONS, line } from "./dom.js";
import { clock, duration, plural, WORDS } from "./format.js";
import { prose } from "./markdown.js";
import { receipt } from "./receipt.js";
import { tasks } from "./store.js";

const LONGEST = 20_000;
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

export function taskLink(id) {
  const task = tasks.byId.get(id);
  return el(
    "a",
    { class: "tasklink", href: `#/task/${encodeURIComponent(id)}`, data: { status: task?.status ?? "" } },
    el("span", { class: "dot" }),
    el("span", { class: "name" }, task ? `${task.agent} · ${line(task.title, 60)}` : id),
  );
}

export function mono(text, kind = "") {
  const cut = text.length > LONGEST;
  return el(
    "pre",
    { class: `mono ${kind}`, tabindex: "0" },
    cut
      ? `${text.slice(0, LONGEST)}\n… ${(text.length - LONGEST).toLocaleString("en")} more characters`
      : text,
  );
}

function block(kind, at, ...children) {
  const time = at ? el("time", { class: "at", datetime: at }, clock(Date.parse(at))) : null;
  return el("article", { class: `said ${kind}` }, time, ...children);
}

export function marker(at, ...text) {
  return el(
    "div",
    { class: "marker" },
    el("span", {}, ...text),
    at ? el("time", { class: "at" }, clock(Date.parse(at))) : null,
  );
}

export function userMessage(message, at, parent = "") {
  const sender = message.sender ?? "user";
  const who = { user: "You", system: "GenCode" }[sender];
  const name = el(
    "div",
    { class: "who" },
    sender === "user" && parent ? parent : (who ?? taskLink(sender)),
    message.mail ? el("span", { class: "faint" }, " while it worked") : null,
  );
  if (sender === "user") return block("user", at, name, prose(message.text));
  const long = message.text.length > 400;
  const text = long
    ? el("details", {}, el("summary", {}, line(message.text, 140)), prose(message.text))
    : prose(message.text);
  return block("other", at, name, text);
}

export function assistantMessage(message, at, agent) {
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
      message.partial ? el("span", { class: "faint" }, " was cut here") : null,
    ),
    thinking ? el("details", { class: "thinking" }, el("summary", {}, "Thinking"), prose(thinking)) : null,
    message.text ? prose(message.text) : null,
    (message.calls ?? []).map((each) => call(each)),
  );
}

export function summaryOf(made) {
  const given = made.input ?? {};
  const name = TELLING.find((each) => typeof given[each] === "string" && given[each]);
  if (name) return line(given[name], 140);
  return Object.keys(given).length ? line(JSON.stringify(given), 140) : "";
}

// A call: closed it is one line; open it shows what was asked for, what was decided, and what came back.
export function call(made) {
  const state = el("span", { class: "state", "aria-label": "runs" });
  const body = el("div", { class: "inside" });
  const shown = el(
    "details",
    { class: "call", data: { state: "runs" } },
    el(
      "summary",
      {},
      state,
      el("b", { class: "tool" }, made.name),
      el("span", { class: "summary" }, summaryOf(made)),
      el("span", { class: "came" }),
    ),
    body,
  );
  shown.call = made;
  shown.addEventListener("toggle", () => {
    if (shown.open) openCall(shown);
  });
  if (ofCall(made)) shown.open = true;
  return shown;
}

function openCall(shown) {
  const body = shown.querySelector(".inside");
  body.replaceChildren(
    ...asked(shown.call),
    ...decided(shown.decided),
    ...answered(shown.result, shown.call),
  );
}

function asked(made) {
  const given = { ...made.input };
  const changes = ofCall(made);
  if (changes)
    for (const each of ["content", "edits", "old_string", "new_string", "old_text", "new_text"])
      delete given[each];
  const entries = Object.entries(given);
  const fields = entries.length
    ? el(
        "dl",
        { class: "given" },
        entries.map(([name, value]) => [
          el("dt", {}, name),
          el("dd", {}, mono(typeof value === "string" ? value : JSON.stringify(value, null, 2))),
        ]),
      )
    : null;
  const broken = made.broken
    ? [el("p", { class: "bad" }, "What it asked for could not be read:"), mono(made.broken)]
    : [];
  return [fields, changes, ...broken].filter(Boolean);
}

function decided(fact) {
  if (!fact) return [];
  const { action, why, rule, policy } = fact.decision;
  const words = { allow: "Allowed", ask: "Asked", deny: "Denied" }[action] ?? action;
  const by = [rule ? `rule ${rule}` : "", policy ? `policy ${policy}` : ""].filter(Boolean).join(", ");
  return [
    el(
      "p",
      { class: "decided", data: { action } },
      el("b", {}, words),
      ` ${why}`,
      by ? el("span", { class: "faint" }, ` (${by})`) : null,
    ),
  ];
}

function answered(result, made) {
  if (!result) return [];
  const trace = result.trace ?? {};
  const parts = [];
  if (result.text)
    parts.push(
      isDiff(result.text)
        ? diff(result.text)
        : result.name === "Task" || made.name === "Task"
          ? prose(result.text)
          : mono(result.text, result.error ? "bad" : ""),
    );
  if (trace.children?.length)
    parts.push(
      el(
        "p",
        { class: "links" },
        trace.children.map((id) => taskLink(id)),
      ),
    );
  const seen = [
    trace.read?.length ? `read ${plural(trace.read.length, "file")}` : "",
    ...(trace.changed ?? []).map((each) =>
      each.sha256 ? `changed ${each.path} (sha256 ${each.sha256.slice(0, 12)})` : `removed ${each.path}`,
    ),
    ...(trace.commands ?? []).map((each) => `ran ${line(each.command, 60)} (exit ${each.exit ?? "none"})`),
  ].filter(Boolean);
  if (seen.length) parts.push(el("p", { class: "seen" }, el("b", {}, "Seen: "), seen.join(" · ")));
  return parts;
}

export function finish(shown, result) {
  shown.result = result;
  shown.dataset.state = result.error ? "error" : "done";
  const state = shown.querySelector(".state");
  state.setAttribute("aria-label", result.error ? "went wrong" : "done");
  shown.child = result.trace?.children?.[0] ?? shown.child;
  const child = tasks.byId.get(shown.child);
  if (child && !result.error) follow(shown, child);
  else shown.querySelector(".came").textContent = line(result.error ? result.text : "", 80);
  if (shown.open) openCall(shown);
}

// A call that sent an agent shows how that agent is, also when it goes on in the background.
export function follow(shown, child) {
  const text = `${WORDS[child.status]}${child.worked === null ? "" : ` · ${duration(child.worked)}`}`;
  if (shown.dataset.child === `${child.id} ${text}`) return;
  shown.dataset.child = `${child.id} ${text}`;
  shown
    .querySelector(".came")
    .replaceChildren(
      el(
        "a",
        { class: "tasklink", href: `#/task/${child.id}`, data: { status: child.status } },
        el("span", { class: "dot" }),
        text,
      ),
    );
}

export function decide(shown, fact) {
  shown.decided = fact;
  if (fact.decision.action !== "allow") shown.dataset.decision = fact.decision.action;
  if (shown.open) openCall(shown);
}

// How it ended; the receipt comes into it once it is known, and then stays as it is.
export function ended(event) {
  const good = event.status === "completed";
  const words = { ...WORDS, completed: "Done" }[event.status] ?? event.status;
  const made = el(
    "section",
    { class: "end", data: { status: event.status }, "aria-label": "How it ended" },
    el(
      "p",
      { class: "line" },
      el("span", { class: "dot" }),
      el("b", {}, words[0].toUpperCase() + words.slice(1)),
      el("time", { class: "at" }, clock(Date.parse(event.at))),
    ),
    event.error && !good ? el("p", { class: "why" }, event.error) : null,
  );
  made.fact = event;
  made.freeze = (figures) => {
    made.frozen = true;
    if (figures) made.append(receipt(figures));
  };
  return made;
}

// Something that was said and waits: for its turn, or to be heard.
export function waitingWords(who, how, text) {
  return el(
    "article",
    { class: "unheard" },
    el("div", { class: "who" }, who, el("span", { class: "faint" }, ` ${how}`)),
    prose(text),
  );
}

export function forkButton(fork) {
  return el(
    "button",
    {
      type: "button",
      class: "quiet fork",
      title: "Fork at this point",
      "aria-label": "Fork at this point",
      on: { click: fork },
    },
    icon(ICONS.fork),
    "Fork here",
  );
}
