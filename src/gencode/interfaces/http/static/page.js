// The page: it reads what there is, follows the stream, and shows the view of its address.

import { AgentTree } from "./js/agent-tree.js";
import { AgentsView } from "./js/agents.js";
import { folderName, introduce, may, me, reason } from "./js/api.js";
import { dismiss, notify, tried } from "./js/dialogs.js";
import { byId, el, fill, put } from "./js/dom.js";
import { stream } from "./js/event-stream.js";
import { listen, showKeys } from "./js/keys.js";
import { questions } from "./js/question-store.js";
import { QuestionsView } from "./js/questions.js";
import { go, here, moved } from "./js/router.js";
import { SpendingView } from "./js/spending.js";
import { StartView } from "./js/start-view.js";
import { tasks } from "./js/task-store.js";
import { TaskView } from "./js/task-view.js";
import { Timeline } from "./js/timeline.js";

/** @typedef {import("./js/event-stream.js").Connection} Connection */
/** @typedef {import("./js/event-stream.js").Notice} Notice */

/** @type {Record<string, "work" | "timeline" | "questions" | "agents" | "spending">} */
const PLACES = {
  start: "work",
  tasks: "work",
  task: "work",
  timeline: "timeline",
  questions: "questions",
  agents: "agents",
  spending: "spending",
};
/** @type {Record<Connection, string>} */
const TROUBLE = {
  connecting: "",
  live: "",
  paused: "",
  lost: "Disconnected. Reconnecting…",
  refused: "This token is no longer valid. Open the address that gen serve prints.",
};
const main = byId("main");
const tree = fill(new AgentTree(), { class: "treepane", "aria-label": "Agents" });
const side = el("div", { class: "detail" });
/** @type {HTMLElement | null} */
let shown = null;

function show() {
  for (const each of document.querySelectorAll("dialog")) if (each.open) each.close();
  const { view, rest } = here();
  const place = PLACES[view] ?? "work";
  document.body.dataset.view = view in PLACES ? view : "start";
  for (const link of document.querySelectorAll("nav a")) {
    if (link instanceof HTMLElement && link.dataset.place === place) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (place === "work") showWork(view, rest);
  else if (place === "agents") showAgents(rest[0]);
  else {
    const View = { timeline: Timeline, questions: QuestionsView, spending: SpendingView }[place];
    shown = new View();
    main.replaceChildren(shown);
  }
  showTitle();
  hiddenQuestions();
}

/** @param {string | undefined} name */
function showAgents(name) {
  const view = shown instanceof AgentsView ? shown : new AgentsView();
  if (view !== shown) main.replaceChildren(view);
  shown = view;
  view.open(name);
}

/**
 * @param {string} view
 * @param {string[]} rest
 */
function showWork(view, rest) {
  if (!tree.isConnected) main.replaceChildren(tree, side);
  if (view === "task" && rest[0]) {
    const task = new TaskView();
    shown = task;
    side.replaceChildren(task);
    task.open(rest[0]);
    tree.mark(rest[0]);
  } else {
    shown = new StartView();
    side.replaceChildren(shown);
    tree.mark(null);
  }
}

function showTitle() {
  const open = questions.open.length;
  document.title = `${open ? `(${open}) ` : ""}${folderName()} – GenCode`;
  const badge = byId("asked");
  put(badge, open ? String(open) : "");
  badge.hidden = open === 0;
}

/** @param {Connection} connection */
function showConnection(connection) {
  document.body.dataset.live = connection;
  const line = byId("line");
  put(line, TROUBLE[connection]);
  line.hidden = !TROUBLE[connection];
  if (connection === "live") dismiss("connection");
  put(byId("live"), connection === "live" ? "live" : "offline");
}

async function startOver() {
  await tried(async () => {
    const cursor = await tasks.load();
    await questions.relearn();
    stream.moveTo(cursor);
    stream.caughtUp.send();
  });
}

/** @param {Notice} notice */
function hear(notice) {
  if (notice.type === "QuestionsChanged") questions.load().catch(() => {});
  else if (notice.type === "ChatMessage") notify(notice.text, false, { seconds: 30 });
  else startOver();
}

/** @param {string} cursor */
function follow(cursor) {
  stream.states.subscribe((states) => tasks.hear(states));
  stream.notices.subscribe(hear);
  stream.connected.subscribe((connection) => {
    showConnection(connection);
    if (connection !== "live") questions.forget();
  });
  stream.caughtUp.subscribe(() => {
    questions.relearn();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && stream.connection === "paused") questions.forget();
  });
  questions.changed.subscribe((fresh) => {
    showTitle();
    if (hiddenQuestions().length && fresh.length && may("answer")) announce();
  });
  stream.open(cursor);
}

// The questions that are not in sight.
function hiddenQuestions() {
  const view = shown;
  const found = questions.open.filter((each) => {
    if (view instanceof QuestionsView) return false;
    return !(view instanceof TaskView && view.shows(each));
  });
  if (!found.length) dismiss("questions");
  return found;
}

// Says that an agent has a question, where that is not in sight, until it is answered.
function announce() {
  const hidden = hiddenQuestions();
  const who = hidden.length === 1 ? `${hidden[0].agent} has a question.` : `${hidden.length} agents have questions.`;
  notify(who, false, { about: "questions" });
}

function focusComposer() {
  if (shown instanceof StartView || shown instanceof TaskView) shown.focusComposer();
}

/** @param {string} verb */
function press(verb) {
  if (shown instanceof TaskView) shown.press(verb);
}

/** @param {() => void} act */
function inTree(act) {
  if (!tree.isConnected) go("/tasks");
  act();
}

function listenToKeys() {
  listen({
    1: () => go("/"),
    2: () => go("/timeline"),
    3: () => go("/questions"),
    4: () => go("/agents"),
    5: () => go("/spending"),
    q: () => {
      go("/questions");
      if (shown instanceof QuestionsView) shown.focusQuestion();
    },
    n: () => {
      go("/");
      focusComposer();
    },
    "/": () => inTree(() => tree.find()),
    t: () => inTree(() => tree.enter()),
    s: focusComposer,
    "?": showKeys,
    i: () => press("interrupt"),
    k: () => press("keep"),
    x: () => press("stop"),
    f: () => press("fork"),
    r: () => press("rewind"),
  });
  byId("keys").addEventListener("click", showKeys);
}

async function begin() {
  await introduce();
  const folder = byId("folder");
  put(folder, me.health.workspace.split("/").filter(Boolean).slice(-2).join("/"));
  folder.title = me.health.workspace;
  const cursor = await tasks.load();
  await questions.load();
  moved.subscribe(show);
  listenToKeys();
  follow(cursor);
  show();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => {
  main.replaceChildren(
    el(
      "div",
      { class: "empty" },
      el("h1", {}, "The page could not be loaded"),
      el("p", {}, reason(error)),
      el("p", { class: "soft" }, "gen serve prints an address with a token. Open that address."),
    ),
  );
});
