// <gen-tree>: every agent below the one that started it, live, with a filter.

import { el, fill, framed, icon, ICONS, put } from "./dom.js";
import { ACTIVE, atWork, count, duration, money, WORDS } from "./format.js";
import { unmarked } from "./markdown.js";
import { questions } from "./question-store.js";
import { go } from "./router.js";
import { tasks } from "./task-store.js";
import { VirtualList } from "./virtual-list.js";

/** @typedef {import("./task-store.js").Task} Task */
/** @typedef {import("./task-store.js").Total} Total */
/** @typedef {{ id: string, task: Task, depth: number, folds: boolean, open: boolean }} Item */
/** @typedef {ReturnType<typeof makeRow>["parts"]} Parts */

/** @type {[name: string, label: string, fits: (task: Task) => boolean][]} */
const KINDS = [
  ["all", "All", () => true],
  ["active", "Running", (task) => task.status === "running"],
  ["queued", "Queued", (task) => task.status === "pending"],
  ["asks", "Questions", (task) => questions.of(task.id).length > 0],
  [
    "failed",
    "Failed",
    (task) => !ACTIVE.has(task.status) && task.status !== "completed" && task.status !== "cancelled",
  ],
];
const TICK_MS = 1000;

export class AgentTree extends HTMLElement {
  #kind = "all";
  #words = "";
  /** @type {Set<string>} */
  #folded = new Set();
  #timer = 0;
  #shape = -1;
  /** @type {VirtualList<Item, Parts>} */
  #rows = fill(new VirtualList({ make: makeRow, draw: drawRow }), {
    role: "tree",
    "aria-label": "Agents",
    class: "tree",
  });
  #empty = el("p", { class: "empty small", hidden: true });
  #kinds = el("div", { class: "kinds", role: "group", "aria-label": "Which agents" });
  /** @type {Map<string, { chip: HTMLElement, number: HTMLElement }>} */
  #chips = new Map();
  #search = el("input", {
    type: "search",
    class: "search",
    placeholder: "Find an agent or task",
    "aria-label": "Find an agent or task (key /)",
    on: { input: () => this.#typed() },
  });
  #later = framed(() => this.#list());

  connectedCallback() {
    if (!this.firstChild) this.#build();
    tasks.changed.subscribe(this.#changed);
    questions.changed.subscribe(this.#later);
    this.#timer = setInterval(() => {
      if (!document.hidden) this.#rows.refresh();
    }, TICK_MS);
    this.#later();
  }

  disconnectedCallback() {
    tasks.changed.unsubscribe(this.#changed);
    questions.changed.unsubscribe(this.#later);
    clearInterval(this.#timer);
  }

  // Most changes are new steps, for which the rows in sight are enough.
  #changed = () => {
    if (this.#words || this.#shape !== tasks.shape) this.#later();
    else this.#rows.refresh();
  };

  #build() {
    for (const [name, label] of KINDS) {
      const number = el("b", { class: "number" });
      const given = { type: "button", class: "chip", data: { kind: name }, on: { click: () => this.#only(name) } };
      const chip = el("button", given, label, number);
      this.#chips.set(name, { chip, number });
      this.#kinds.append(chip);
    }
    this.#rows.picked.subscribe(({ id }) => go(`/task/${id}`));
    this.#rows.folded.subscribe(({ id }) => this.#fold(id));
    this.#rows.sideways.subscribe(({ item, open }) => this.#side(item, open));
    const heading = el("span", { class: "unseen", role: "heading", "aria-level": 1 }, "All agents");
    this.append(el("div", { class: "tools" }, heading, this.#search, this.#kinds), this.#rows, this.#empty);
  }

  find() {
    this.#search.focus();
    this.#search.select();
  }

  /** @param {string | null} id */
  mark(id) {
    this.#rows.choose(id);
    this.#later();
    requestAnimationFrame(() => requestAnimationFrame(() => this.#rows.reveal(id)));
  }

  enter() {
    this.#rows.focus();
  }

  #typed() {
    this.#words = this.#search.value.trim().toLowerCase();
    this.#later();
  }

  /** @param {string} kind */
  #only(kind) {
    this.#kind = kind;
    this.#later();
  }

  /** @param {string} id */
  #fold(id) {
    if (!this.#folded.delete(id)) this.#folded.add(id);
    this.#later();
  }

  /**
   * @param {Item} item
   * @param {boolean} open
   */
  #side({ task, folds, open: isOpen }, open) {
    const parent = tasks.parentOf(task);
    if (folds && isOpen !== open) this.#fold(task.id);
    else if (!open && parent) {
      this.#rows.choose(parent.id);
      this.#rows.reveal(parent.id);
    }
  }

  #list() {
    this.#shape = tasks.shape;
    const wanted = this.#wanted();
    /** @type {Item[]} */
    const items = [];
    /** @type {(task: Task, depth: number) => void} */
    const visit = (task, depth) => {
      if (wanted && !wanted.has(task.id)) return;
      const below = tasks.below(task.id);
      const open = Boolean(wanted) || !this.#folded.has(task.id);
      items.push({ id: task.id, task, depth, folds: below.length > 0, open });
      if (open) for (const child of below) visit(child, depth + 1);
    };
    for (const root of tasks.roots()) visit(root, 0);
    this.#rows.show(items);
    this.#tell(items.length);
  }

  // The tasks that fit, with those above them; nothing when all do.
  #wanted() {
    const fits = KINDS.find(([name]) => name === this.#kind)?.[2];
    if (!fits || (this.#kind === "all" && !this.#words)) return null;
    /** @type {Set<string>} */
    const found = new Set();
    for (const task of tasks.byId.values()) {
      const text = `${task.id} ${task.agent} ${task.title} ${task.model} ${WORDS[task.status]}`.toLowerCase();
      if (!fits(task) || !text.includes(this.#words)) continue;
      /** @type {Task | undefined} */
      let each = task;
      for (; each && !found.has(each.id); each = tasks.parentOf(each)) found.add(each.id);
    }
    return found;
  }

  /** @param {number} shown */
  #tell(shown) {
    for (const [name, , fits] of KINDS) {
      const parts = this.#chips.get(name);
      let number = 0;
      for (const task of tasks.byId.values()) if (fits(task)) number += 1;
      put(parts?.number ?? null, name === "all" || number ? count(number) : "");
      parts?.chip.setAttribute("aria-pressed", String(name === this.#kind));
    }
    this.#empty.hidden = shown > 0;
    this.#rows.hidden = shown === 0;
    const none =
      tasks.byId.size === 0
        ? "No agents have run in this folder yet."
        : "No agents match. Choose “All” or clear the search.";
    put(this.#empty, none);
  }
}

function makeRow() {
  const parts = {
    twist: el("span", { class: "twist", data: { fold: "" }, "aria-hidden": "true" }, icon(ICONS.right)),
    agent: el("b", { class: "agent" }),
    title: el("span", { class: "title" }),
    step: el("span", { class: "step" }),
    time: el("span", { class: "time" }),
    cost: el("span", { class: "cost" }),
    asks: el("span", { class: "asks", hidden: true }, "question"),
    status: el("span", { class: "unseen" }),
  };
  const row = el(
    "div",
    { role: "treeitem", class: "task" },
    el("span", { class: "indent" }),
    parts.twist,
    el("span", { class: "dot" }),
    parts.status,
    el("span", { class: "what" }, el("span", { class: "head" }, parts.agent, parts.title), parts.step),
    el("span", { class: "figures" }, el("span", { class: "over" }, parts.asks, parts.time), parts.cost),
  );
  return { row, parts };
}

/**
 * @param {HTMLElement} row
 * @param {Parts} parts
 * @param {Item} item
 */
function drawRow(row, parts, { task, depth, folds, open }) {
  row.style.setProperty("--depth", String(Math.min(depth, 8)));
  row.dataset.status = task.status;
  row.setAttribute("aria-level", String(depth + 1));
  if (folds) row.setAttribute("aria-expanded", String(open));
  else row.removeAttribute("aria-expanded");
  row.classList.toggle("folds", folds);
  put(parts.agent, task.agent);
  put(parts.title, task.title);
  const total = tasks.total(task);
  put(parts.step, unmarked(stepOf(task, total, open)));
  put(parts.time, duration(tasks.elapsed(task)));
  put(parts.cost, figures(total));
  parts.asks.hidden = questions.of(task.id).length === 0;
  put(parts.status, WORDS[task.status]);
}

/**
 * @param {Task} task
 * @param {Total} total
 * @param {boolean} open
 */
function stepOf(task, total, open) {
  const [question] = questions.of(task.id);
  if (question) return question.inquiries.length ? "has a question" : `needs approval to use ${question.tool}`;
  const silent = task.stalled ? `no response for ${Math.round(task.stalled)} s` : "";
  if (task.status === "pending") return [queued(task), silent].filter(Boolean).join(", ");
  if (silent) return silent;
  if (!open && total.active) return `subagents: ${atWork(total.running, total.pending)}`;
  if (task.status === "completed") return task.step || "done";
  if (!ACTIVE.has(task.status)) return task.step ? `${WORDS[task.status]}: ${task.step}` : WORDS[task.status];
  if (task.idle) return "waiting for background tasks";
  return task.step || (task.turns ? `turn ${task.turns}` : "starting…");
}

/** @param {Task} task */
export function queued(task) {
  return task.queue ? `queued (${task.queue})` : "queued";
}

/** @param {Total} total */
function figures(total) {
  const parts = [total.tokens ? `${count(total.tokens)} tok` : "", money(total.usd)];
  return parts.filter(Boolean).join(" · ");
}

customElements.define("gen-tree", AgentTree);
