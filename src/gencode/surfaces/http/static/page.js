// The page: it says who it is, reads the lists, follows the stream, and shows the view of its address.

import { introduce, may, me } from "./js/api.js";
import { tell, tried } from "./js/dialogs.js";
import { el, put } from "./js/dom.js";
import { listen, showKeys } from "./js/keys.js";
import { live } from "./js/live.js";
import { questions } from "./js/questions-store.js";
import { go, here, places } from "./js/router.js";
import { tasks } from "./js/store.js";
import "./js/agents.js";
import "./js/asking.js";
import "./js/spending.js";
import "./js/start.js";
import "./js/task.js";
import "./js/timeline.js";
import "./js/tree.js";

const VIEWS = {
  start: "work",
  tasks: "work",
  task: "work",
  timeline: "timeline",
  questions: "questions",
  agents: "agents",
  spending: "spending",
};
const STATES = {
  live: "live",
  lost: "The line to the server broke. Trying again…",
  refused: "This token does not count any more. Open the address that gen serve prints.",
};
const main = document.getElementById("main");
const tree = el("gen-tree", { class: "treepane", "aria-label": "Agents" });
const side = el("div", { class: "detail" });
let shown = null;

function show() {
  for (const each of document.querySelectorAll("dialog[open]")) each.close();
  const { view, rest } = here();
  const place = VIEWS[view] ?? "work";
  document.body.dataset.view = view in VIEWS ? view : "start";
  for (const link of document.querySelectorAll("nav a[data-place]")) {
    if (link.dataset.place === place) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (place === "work") work(view, rest);
  else if (place === "agents" && shown?.localName === "gen-agents") shown.open(rest[0]);
  else {
    shown = el(`gen-${place}`);
    main.replaceChildren(shown);
    if (place === "agents") shown.open(rest[0]);
  }
  title();
}

function work(view, rest) {
  if (!tree.isConnected) main.replaceChildren(tree, side);
  if (view === "task" && rest[0]) {
    shown = el("gen-task");
    side.replaceChildren(shown);
    shown.open(rest[0]);
    tree.mark(rest[0]);
  } else {
    shown = el("gen-start");
    side.replaceChildren(shown);
    tree.mark(null);
  }
}

function title() {
  const open = questions.open.length;
  const name = me.health.workspace.split("/").filter(Boolean).at(-1) ?? "/";
  document.title = `${open ? `(${open}) ` : ""}${name} – GenCode`;
  const badge = document.getElementById("asked");
  put(badge, open ? String(open) : "");
  badge.hidden = open === 0;
}

function connection() {
  document.body.dataset.live = live.state;
  const line = document.getElementById("line");
  put(line, live.state === "live" ? "" : (STATES[live.state] ?? ""));
  line.hidden = live.state === "live";
  put(document.getElementById("live"), live.state === "live" ? "live" : "away");
}

async function again() {
  await tried(async () => {
    const cursor = await tasks.load();
    await questions.load();
    live.moveTo(cursor);
    live.dispatchEvent(new Event("again"));
  });
}

function follow(cursor) {
  live.addEventListener("facts", (event) => {
    for (const fact of event.detail) tasks.apply(fact);
  });
  live.addEventListener("QuestionsChanged", () => questions.load().catch(() => {}));
  live.addEventListener("ChatMessage", (event) => tell(event.detail.text, false, 30));
  live.addEventListener("StreamReset", again);
  live.addEventListener("state", (event) => {
    connection();
    if (event.detail.state === "live" && event.detail.before === "lost") {
      questions.load().catch(() => {});
      live.dispatchEvent(new Event("again"));
    }
  });
  questions.addEventListener("change", (event) => {
    title();
    if (event.detail.length && may("answer"))
      tell(
        event.detail.length === 1
          ? `${event.detail[0].agent} asks something.`
          : `${event.detail.length} agents ask something.`,
      );
  });
  live.open(cursor);
}

function keys() {
  const focusing = (path) => () => {
    go(path);
    requestAnimationFrame(() => shown?.focusWords?.());
  };
  const toTree = (act) => () => {
    if (!tree.isConnected) go("/tasks");
    requestAnimationFrame(act);
  };
  listen({
    1: () => go("/"),
    2: () => go("/timeline"),
    3: () => go("/questions"),
    4: () => go("/agents"),
    5: () => go("/spending"),
    q: () => go("/questions"),
    n: focusing("/"),
    "/": toTree(() => tree.find()),
    t: toTree(() => tree.enter()),
    s: () => shown?.focusWords?.(),
    "?": showKeys,
    i: () => shown?.press?.("interrupt"),
    k: () => shown?.press?.("keep"),
    x: () => shown?.press?.("stop"),
    f: () => shown?.press?.("fork"),
  });
  document.getElementById("keys").addEventListener("click", showKeys);
}

async function begin() {
  const health = await introduce();
  const folder = document.getElementById("folder");
  put(folder, health.workspace.split("/").filter(Boolean).slice(-2).join("/"));
  folder.title = health.workspace;
  const cursor = await tasks.load();
  await questions.load();
  places.addEventListener("change", show);
  keys();
  follow(cursor);
  show();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => {
  main.replaceChildren(
    el(
      "div",
      { class: "empty" },
      el("h1", {}, "This page cannot begin"),
      el("p", {}, error.message),
      el("p", { class: "soft" }, "gen serve prints an address with a token; open that one."),
    ),
  );
});
