// The page: it says who it is, reads the lists, follows the stream, and shows the view of its address.

import { introduce, may, me } from "./js/api.js";
import { tell, tried, untell } from "./js/dialogs.js";
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
const QUIET = new Set(["live", "rests"]);
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
  elsewhere();
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
  put(line, QUIET.has(live.state) ? "" : (STATES[live.state] ?? ""));
  line.hidden = QUIET.has(live.state);
  if (live.state === "live") untell("line");
  put(document.getElementById("live"), live.state === "live" ? "live" : "away");
}

async function again() {
  await tried(async () => {
    const cursor = await tasks.load();
    await questions.relearn();
    live.moveTo(cursor);
    live.dispatchEvent(new Event("again"));
  });
}

function follow(cursor) {
  live.addEventListener("facts", (event) => {
    for (const fact of event.detail) tasks.apply(fact);
  });
  live.addEventListener("QuestionsChanged", () => questions.load().catch(() => {}));
  live.addEventListener("ChatMessage", (event) => tell(event.detail.text, false, { seconds: 30 }));
  live.addEventListener("StreamReset", again);
  live.addEventListener("state", (event) => {
    connection();
    if (event.detail.state !== "live") questions.forget();
    else if (event.detail.before !== "begins") {
      questions.relearn();
      live.dispatchEvent(new Event("again"));
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && live.state === "rests") questions.forget();
  });
  questions.addEventListener("change", asked);
  live.open(cursor);
}

// The questions that are not in sight.
function elsewhere() {
  const found = questions.open.filter((each) => !shown?.shows?.(each));
  if (!found.length) untell("asked");
  return found;
}

// Says that somebody asks, where that is not in sight, until nobody does.
function asked(event) {
  title();
  const away = elsewhere();
  if (away.length && event.detail.length && may("answer"))
    tell(
      away.length === 1 ? `${away[0].agent} asks something.` : `${away.length} agents ask something.`,
      false,
      { about: "asked" },
    );
}

function keys() {
  const focusing = (path) => () => {
    go(path);
    shown?.focusWords?.();
  };
  const toTree = (act) => () => {
    if (!tree.isConnected) go("/tasks");
    act();
  };
  listen({
    1: () => go("/"),
    2: () => go("/timeline"),
    3: () => go("/questions"),
    4: () => go("/agents"),
    5: () => go("/spending"),
    q: () => {
      go("/questions");
      shown?.focusQuestion?.();
    },
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
