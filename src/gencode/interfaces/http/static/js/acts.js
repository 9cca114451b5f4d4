// What can be done to a task. Everything that ends work says first what it will hit.

import { get, may, post, task as at } from "./api.js";
import { dialog, tell, tried } from "./dialogs.js";
import { button, el } from "./dom.js";
import { ACTIVE, plural } from "./format.js";
import { taskLink } from "./messages.js";
import { go } from "./router.js";
import { tasks } from "./store.js";

const MOST = 40;
const VERBS = {
  interrupt: {
    label: "Interrupt",
    title: "Cut what it does now?",
    says: "The step that runs now is cut; the agent goes on from there.",
    confirm: "Interrupt",
    say: "What should it know when it goes on? (may stay empty)",
  },
  turn: {
    label: "Interrupt",
    title: "End this turn?",
    says: "What it does now is cut, and its turn is over. What you write here begins the next turn; without words it waits for you.",
    confirm: "End the turn",
    say: "What should be done instead? (may stay empty)",
  },
  keep: {
    label: "Stop and keep",
    title: "Stop it and keep what it found?",
    says: "It says in one last turn what it has found, then it ends.",
    confirm: "Stop and keep",
  },
  stop: {
    label: "Abort",
    title: "Abort it?",
    says: "It ends at once. What it said so far is kept.",
    confirm: "Abort",
    danger: true,
  },
  tree: {
    label: "Abort tree",
    title: "Abort it and everything below it?",
    says: "It and all agents below it end at once, those in the background too.",
    confirm: "Abort all",
    danger: true,
  },
};

export function verbs(task) {
  if (!may("act")) return [];
  const found = [];
  const works = ACTIVE.has(task.status);
  const total = tasks.total(task);
  if (task.status === "running") found.push("interrupt");
  if (task.status === "running" && !tasks.isConversation(task)) found.push("keep");
  if (works) found.push("stop");
  if (total.tasks > 0 && (total.active > 0 || works)) found.push("tree");
  const made = found.map((verb) =>
    button(VERBS[verb].label, () => ask(task, verb), {
      class: VERBS[verb].danger ? "danger" : "",
      data: { verb },
    }),
  );
  if (task.status === "running" && task.parent && !task.background) {
    made.push(button("To background", () => background(task), { data: { verb: "background" } }));
  }
  if (!works && !tasks.isConversation(task))
    made.push(button("Fork", () => fork(task, null), { data: { verb: "fork" } }));
  return made;
}

async function ask(task, verb) {
  const isTurn = verb === "interrupt" && tasks.isConversation(task);
  const { title, says, confirm, danger, say } = VERBS[isTurn ? "turn" : verb];
  const hits = el(
    "div",
    { class: "hits", "aria-live": "polite" },
    el("p", { class: "faint" }, "Looking at what this will hit…"),
  );
  const words = say ? el("textarea", { rows: 2, "aria-label": say, placeholder: say }) : null;
  dialog({
    title,
    danger,
    confirm,
    body: [el("p", {}, says), hits, words].filter(Boolean),
    ready: (yes) => look(task, verb, hits, yes),
    act: () => (verb === "keep" ? void tried(() => stop(task, verb)) : done(task, verb, words?.value)),
  });
}

async function done(task, verb, message) {
  if (verb !== "interrupt") return stop(task, verb);
  const hit = await said(task, message, () => post(at(task.id, "/interrupt"), { message }));
  tell(`Interrupted ${plural(hit.interrupted.length, "agent")}.`);
  return tasks.renew(task.id);
}

// A last word may take a while; nobody has to look at a dialog for as long.
async function stop(task, verb) {
  if (verb === "keep") tell("It says its last word, then it ends.");
  const hit = await post(at(task.id, "/stop"), { how: verb === "stop" ? "abort" : verb });
  tell(`Stopped ${plural(hit.stopped.length, "agent")}.`);
  tasks.renew(task.id);
}

async function look(task, verb, hits, yes) {
  yes.disabled = true;
  try {
    const found = (await get(at(task.id, "/hits"), { verb })).tasks;
    const list = el(
      "ul",
      { class: "links" },
      found.slice(0, MOST).map((each) => el("li", {}, taskLink(each.agentId))),
    );
    if (found.length > MOST) list.append(el("li", { class: "faint" }, `and ${found.length - MOST} more`));
    const idle =
      task.status === "pending" ? "It waits for its turn" : "Nothing is at work there any more";
    const said = found.length
      ? `This will hit ${plural(found.length, "agent")}:`
      : `${idle}; this will hit nothing.`;
    hits.replaceChildren(el("p", {}, el("b", {}, said)), list);
    yes.disabled = false;
    yes.focus();
  } catch (error) {
    hits.replaceChildren(el("p", { class: "bad" }, error.message));
  }
}

async function background(task) {
  dialog({
    title: "Send it to the background?",
    confirm: "To background",
    body: [
      el("p", {}, "The agent that waits for it goes on at once; the result comes to it later."),
      el("p", { class: "links" }, taskLink(task.parent), "goes on without", taskLink(task.id)),
    ],
    act: async () => {
      await post(at(task.id, "/background"));
      tasks.renew(task.id);
    },
  });
}

export function fork(task, seq) {
  const words = el("textarea", {
    rows: 4,
    required: true,
    "aria-label": "What the copy should do instead",
    placeholder: "What should the copy do instead?",
  });
  const where =
    seq === null ? "with everything this one knows now" : `with what this one knew after fact ${seq}`;
  dialog({
    title: "Fork",
    confirm: "Begin the copy",
    body: [el("p", {}, `A new task of ${task.agent} begins ${where}. Nothing happens to this one.`), words],
    ready: () => words.focus(),
    act: async () => {
      const made = await post(
        at(task.id, "/fork"),
        seq === null ? { prompt: words.value } : { prompt: words.value, at: seq },
      );
      tasks.take(made);
      go(`/task/${made.agentId}`);
    },
  });
}

// What is said is in sight from the first moment on, as something that waits to be heard.
async function said(task, text, send) {
  const letter = text ? tasks.write(task.id, text) : null;
  try {
    return await send();
  } catch (error) {
    if (letter) tasks.heard(task.id, letter.text);
    throw error;
  }
}

// Says something to a task, in the way that fits to how it is.
export async function say(task, text) {
  if (tasks.isConversation(task) || ACTIVE.has(task.status)) {
    const now = await said(task, text, () => post(at(task.id, "/send"), { message: text }));
    if (now.woken && !tasks.isConversation(task)) tell("It had ended and goes on with this.");
  } else {
    await post(at(task.id, "/resume"), { prompt: text });
  }
  tasks.renew(task.id);
}

export function sayingOf(task) {
  if (tasks.isConversation(task))
    return {
      verb: ACTIVE.has(task.status) ? "Steer" : "Send",
      hint: ACTIVE.has(task.status) ? "Steer: heard before the next reply" : "Say something",
    };
  if (ACTIVE.has(task.status))
    return { verb: "Steer", hint: `Steer ${task.agent}: heard before its next reply` };
  return { verb: "Resume", hint: `Resume: what should ${task.agent} do now?` };
}
