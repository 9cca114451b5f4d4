// What can be done to a task. Everything that stops work says first which agents it stops.

import { get, may, post, reason, task as at } from "./api.js";
import { dialog, notify, tried } from "./dialogs.js";
import { button, el } from "./dom.js";
import { ACTIVE, plural } from "./format.js";
import { go } from "./router.js";
import { tasks } from "./task-store.js";
import { rewind } from "./rewind.js";
import { taskLink } from "./transcript-entries.js";

/** @typedef {import("./task-store.js").Task} Task */
/** @typedef {"interrupt" | "keep" | "stop" | "tree"} Verb */
/** @typedef {{ label: string, title: string, says: string, confirm: string, ask?: string, danger?: boolean }} Words */

const MOST = 40;
/** @type {Record<Verb | "turn", Words>} */
const WORDS = {
  interrupt: {
    label: "Interrupt",
    title: "Interrupt this agent?",
    says: "Its current step is cancelled, and it continues from there.",
    confirm: "Interrupt",
    ask: "What should it know when it continues? (optional)",
  },
  turn: {
    label: "Interrupt",
    title: "Interrupt this turn?",
    says: "The turn ends now. Your message starts the next one; without a message the agent waits for you.",
    confirm: "Interrupt",
    ask: "What should it do instead? (optional)",
  },
  keep: {
    label: "Stop and keep",
    title: "Stop this agent and keep its findings?",
    says: "It reports in one last turn what it has found, then it stops.",
    confirm: "Stop and keep",
  },
  stop: {
    label: "Stop",
    title: "Stop this agent?",
    says: "It stops at once. What it has said so far is kept.",
    confirm: "Stop",
    danger: true,
  },
  tree: {
    label: "Stop all",
    title: "Stop this agent and all its subagents?",
    says: "It and all its subagents stop at once, including those in the background.",
    confirm: "Stop all",
    danger: true,
  },
};

/**
 * The buttons for a task.
 * @param {Task} task
 * @param {(prompt: string) => void} rewound
 */
export function actions(task, rewound) {
  if (!may("act")) return [];
  /** @type {Verb[]} */
  const verbs = [];
  const isActive = ACTIVE.has(task.status);
  const isRunning = task.status === "running";
  const total = tasks.total(task);
  if (isRunning) verbs.push("interrupt");
  if (isRunning && !task.conversation) verbs.push("keep");
  if (isActive) verbs.push("stop");
  if (total.tasks > 0 && (total.active > 0 || isActive)) verbs.push("tree");
  const buttons = verbs.map((verb) =>
    button(WORDS[verb].label, () => confirm(task, verb), {
      class: WORDS[verb].danger ? "danger" : "",
      data: { verb },
    }),
  );
  if (isRunning && task.parent && !task.background) {
    buttons.push(button("To background", () => toBackground(task), { data: { verb: "background" } }));
  }
  if (!isActive && !task.conversation)
    buttons.push(button("Fork", () => fork(task, null), { data: { verb: "fork" } }));
  if (!isActive && task.conversation)
    buttons.push(button("Rewind", () => tried(() => rewind(task, rewound)), { data: { verb: "rewind" } }));
  return buttons;
}

/**
 * Why a key does nothing for a task.
 * @param {string} verb
 * @param {Task} task
 */
export function whyNot(verb, task) {
  if (!may("act")) return "Your token is read-only.";
  if (verb === "fork")
    return task.conversation
      ? "Conversations are not forked. Press r to go back to an earlier prompt."
      : "This agent is still running. Fork it once it has ended.";
  if (verb === "rewind")
    return task.conversation
      ? "The agent is working. Interrupt it first."
      : "Only conversations can be rewound. Press f to fork this agent.";
  if (verb === "keep" && task.conversation) return "A conversation is interrupted or stopped.";
  return "This agent is not running.";
}

/**
 * @param {Task} task
 * @param {Verb} verb
 */
function confirm(task, verb) {
  const isTurn = verb === "interrupt" && task.conversation;
  const words = WORDS[isTurn ? "turn" : verb];
  const affected = el(
    "div",
    { class: "hits", "aria-live": "polite" },
    el("p", { class: "faint" }, "Checking which agents this affects…"),
  );
  const field = words.ask
    ? el("textarea", { rows: 2, "aria-label": words.ask, placeholder: words.ask })
    : null;
  dialog({
    title: words.title,
    danger: words.danger,
    confirm: words.confirm,
    body: [el("p", {}, words.says), affected, field],
    ready: (yes) => showAffected(task, verb, affected, yes),
    act: () => (verb === "keep" ? void tried(() => stop(task, verb)) : act(task, verb, field?.value ?? "")),
  });
}

/**
 * @param {Task} task
 * @param {Verb} verb
 * @param {string} message
 */
async function act(task, verb, message) {
  if (verb !== "interrupt") return stop(task, verb);
  const hit = await sent(task, message, () => post(at(task.id, "/interrupt"), { message }));
  notify(`Interrupted ${plural(hit.interrupted.length, "agent")}.`);
  return tasks.renew(task.id);
}

/**
 * Nobody has to look at a dialog for as long as a last report takes.
 * @param {Task} task
 * @param {Verb} verb
 */
async function stop(task, verb) {
  if (verb === "keep") notify("The agent reports what it has found, then it stops.");
  const hit = await post(at(task.id, "/stop"), { how: verb });
  notify(`Stopped ${plural(hit.stopped.length, "agent")}.`);
  tasks.renew(task.id);
}

/**
 * @param {Task} task
 * @param {Verb} verb
 * @param {HTMLElement} place
 * @param {HTMLButtonElement} yes
 */
async function showAffected(task, verb, place, yes) {
  yes.disabled = true;
  try {
    /** @type {import("./api.js").Outcome[]} */
    const found = (await get(at(task.id, "/hits"), { verb })).tasks;
    const list = el(
      "ul",
      { class: "links" },
      found.slice(0, MOST).map((each) => el("li", {}, taskLink(each.agentId))),
    );
    if (found.length > MOST) list.append(el("li", { class: "faint" }, `and ${found.length - MOST} more`));
    const does = verb === "interrupt" ? "interrupt" : "stop";
    const summary = found.length ? `This will ${does} ${plural(found.length, "agent")}:` : nothing(task, does);
    place.replaceChildren(el("p", {}, el("b", {}, summary)), list);
    yes.disabled = false;
    yes.focus();
  } catch (error) {
    place.replaceChildren(el("p", { class: "bad" }, reason(error)));
  }
}

/**
 * @param {Task} task
 * @param {string} does
 */
function nothing(task, does) {
  const why = task.status === "pending" ? "the agent is queued" : "the agent is no longer running";
  return `Nothing to ${does}: ${why}.`;
}

/** @param {Task} task */
function toBackground(task) {
  dialog({
    title: "Move this agent to the background?",
    confirm: "To background",
    body: [
      el("p", {}, "Its parent continues at once, and gets the result later."),
      el("p", { class: "links" }, taskLink(task.parent ?? ""), "continues without", taskLink(task.id)),
    ],
    act: async () => {
      await post(at(task.id, "/background"));
      tasks.renew(task.id);
    },
  });
}

/**
 * @param {Task} task
 * @param {number | null} seq After which fact; null for its end.
 */
export function fork(task, seq) {
  const words = el("textarea", {
    rows: 4,
    required: true,
    "aria-label": "What the fork should do instead",
    placeholder: "What should the fork do instead?",
  });
  const where = seq === null ? "everything this one knows" : `what this one knew after event ${seq}`;
  dialog({
    title: "Fork this task",
    confirm: "Start fork",
    body: [el("p", {}, `A new ${task.agent} task starts with ${where}. This task does not change.`), words],
    ready: () => words.focus(),
    act: async () => {
      const prompt = words.value;
      const forked = await post(at(task.id, "/fork"), seq === null ? { prompt } : { prompt, at: seq });
      go(`/task/${forked.agentId}`);
    },
  });
}

/**
 * What is sent is shown from the first moment on, as a message that waits to be read.
 * @template T
 * @param {Task} task
 * @param {string} text
 * @param {() => Promise<T>} send
 */
async function sent(task, text, send) {
  const letter = text ? tasks.write(task.id, text) : null;
  try {
    return await send();
  } catch (error) {
    if (letter) tasks.read(task.id, letter.text);
    throw error;
  }
}

/**
 * Sends a message to a task, in the way that fits its status.
 * @param {Task} task
 * @param {string} text
 */
export async function sendMessage(task, text) {
  if (task.conversation || ACTIVE.has(task.status)) {
    const now = await sent(task, text, () => post(at(task.id, "/send"), { message: text }));
    if (now.woken && !task.conversation) notify("The task had finished and was resumed.");
  } else {
    await post(at(task.id, "/resume"), { prompt: text });
  }
  tasks.renew(task.id);
}

/**
 * The label of the button that sends, and the hint in the empty field.
 * @param {Task} task
 */
export function composerWords(task) {
  if (ACTIVE.has(task.status)) return { verb: "Send", hint: `Message ${task.agent}` };
  if (task.conversation) return { verb: "Send", hint: "Send a message" };
  return { verb: "Resume", hint: `Resume: what should ${task.agent} do now?` };
}
