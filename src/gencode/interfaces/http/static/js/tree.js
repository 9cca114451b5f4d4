// <gen-tree>: every agent below the one that sent it, live, with a filter.

import { el, framed, icon, ICONS, put } from "./dom.js";
import { ACTIVE, atWork, count, duration, money, WORDS } from "./format.js";
import { questions } from "./questions-store.js";
import { go } from "./router.js";
import { tasks } from "./store.js";
import "./rows.js";

const KINDS = [
  ["all", "All", () => true],
  ["active", "At work", (task) => task.status === "running"],
  ["line", "In line", (task) => task.status === "pending"],
  ["asks", "Asks", (task) => questions.of(task.id).length > 0],
  [
    "trouble",
    "Trouble",
    (task) => !ACTIVE.has(task.status) && task.status !== "completed" && task.status !== "cancelled",
  ],
];
const TICK_MS = 1000;

class Tree extends HTMLElement {
  #kind = "all";
  #words = "";
  #folded = new Set();
  #timer = 0;
  #shape = -1;
  #rows = el("gen-rows", { role: "tree", "aria-label": "Agents", class: "tree" });
  #empty = el("p", { class: "empty small", hidden: true });
  #kinds = el("div", { class: "kinds", role: "group", "aria-label": "Which agents" });
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
    tasks.addEventListener("change", this.#changed);
    questions.addEventListener("change", this.#later);
    this.#timer = setInterval(() => {
      if (!document.hidden) this.#rows.refresh();
    }, TICK_MS);
    this.#later();
  }

  disconnectedCallback() {
    tasks.removeEventListener("change", this.#changed);
    questions.removeEventListener("change", this.#later);
    clearInterval(this.#timer);
  }

  // Most changes are new steps, for which the rows in sight are enough.
  #changed = () => {
    if (this.#words || this.#shape !== tasks.shape) this.#later();
    else this.#rows.refresh();
  };

  #build() {
    for (const [name, label] of KINDS) {
      this.#kinds.append(
        el(
          "button",
          { type: "button", class: "chip", data: { kind: name }, on: { click: () => this.#only(name) } },
          label,
          el("b", { class: "number" }),
        ),
      );
    }
    this.#rows.make = made;
    this.#rows.draw = (row, item) => draw(row, item);
    this.#rows.keyOf = (item) => item.task.id;
    this.#rows.addEventListener("pick", (event) => go(`/task/${event.detail.task.id}`));
    this.#rows.addEventListener("fold", (event) => this.#fold(event.detail.task.id));
    this.#rows.addEventListener("side", (event) => this.#side(event.detail));
    this.append(el("div", { class: "tools" }, this.#search, this.#kinds), this.#rows, this.#empty);
  }

  find() {
    this.#search.focus();
    this.#search.select();
  }

  mark(id) {
    this.#rows.chosen = id;
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

  #only(kind) {
    this.#kind = kind;
    this.#later();
  }

  #fold(id) {
    if (!this.#folded.delete(id)) this.#folded.add(id);
    this.#later();
  }

  #side({ item: { task, folds, open: isOpen }, open }) {
    if (folds && isOpen !== open) this.#fold(task.id);
    else if (!open && task.parent && tasks.byId.has(task.parent)) {
      this.#rows.choose({ task: tasks.byId.get(task.parent) });
      this.#rows.reveal(task.parent);
    }
  }

  #list() {
    this.#shape = tasks.shape;
    const wanted = this.#wanted();
    const items = [];
    const visit = (task, depth) => {
      if (wanted && !wanted.has(task.id)) return;
      const below = tasks.below(task.id);
      const open = Boolean(wanted) || !this.#folded.has(task.id);
      items.push({ task, depth, folds: below.length > 0, open });
      if (open) for (const child of below) visit(child, depth + 1);
    };
    for (const root of tasks.roots()) visit(root, 0);
    this.#rows.show(items);
    this.#tell(items.length);
  }

  // The tasks that fit, with those above them; nothing when all do.
  #wanted() {
    const fits = KINDS.find(([name]) => name === this.#kind)[2];
    if (this.#kind === "all" && !this.#words) return null;
    const found = new Set();
    for (const task of tasks.byId.values()) {
      const text = `${task.id} ${task.agent} ${task.title} ${task.model} ${WORDS[task.status]}`.toLowerCase();
      if (!fits(task) || !text.includes(this.#words)) continue;
      for (let each = task; each && !found.has(each.id); each = tasks.byId.get(each.parent))
        found.add(each.id);
    }
    return found;
  }

  #tell(shown) {
    for (const [name, , fits] of KINDS) {
      const chip = this.#kinds.querySelector(`[data-kind=${name}]`);
      let number = 0;
      for (const task of tasks.byId.values()) if (fits(task)) number += 1;
      put(chip.querySelector("b"), name === "all" || number ? count(number) : "");
      chip.setAttribute("aria-pressed", String(name === this.#kind));
    }
    this.#empty.hidden = shown > 0;
    this.#rows.hidden = shown === 0;
    const none =
      tasks.byId.size === 0
        ? "No agent has worked in this folder yet."
        : "No agent fits. Choose “All” or clear the search.";
    put(this.#empty, none);
  }
}

function made() {
  const parts = {
    twist: el("span", { class: "twist", data: { fold: "" }, "aria-hidden": "true" }, icon(ICONS.right)),
    dot: el("span", { class: "dot" }),
    agent: el("b", { class: "agent" }),
    title: el("span", { class: "title" }),
    step: el("span", { class: "step" }),
    time: el("span", { class: "time" }),
    cost: el("span", { class: "cost" }),
    asks: el("span", { class: "asks", hidden: true }, "asks"),
  };
  const row = el(
    "div",
    { role: "treeitem", class: "task" },
    el("span", { class: "indent" }),
    parts.twist,
    parts.dot,
    el("span", { class: "what" }, el("span", { class: "head" }, parts.agent, parts.title), parts.step),
    el("span", { class: "figures" }, el("span", { class: "over" }, parts.asks, parts.time), parts.cost),
  );
  row.parts = parts;
  return row;
}

function draw(row, { task, depth, folds, open }) {
  const { parts } = row;
  row.style.setProperty("--depth", Math.min(depth, 8));
  row.dataset.status = task.status;
  row.setAttribute("aria-level", depth + 1);
  if (folds) row.setAttribute("aria-expanded", String(open));
  else row.removeAttribute("aria-expanded");
  row.classList.toggle("folds", folds);
  put(parts.agent, task.agent);
  put(parts.title, task.title);
  const total = tasks.total(task);
  put(parts.step, stepOf(task, total, open));
  put(parts.time, duration(tasks.elapsed(task)));
  put(parts.cost, figures(total));
  parts.asks.hidden = questions.of(task.id).length === 0;
  row.setAttribute("aria-label", `${task.agent}, ${WORDS[task.status]}: ${task.title}`);
}

function stepOf(task, total, open) {
  const [asked] = questions.of(task.id);
  if (asked) return asked.inquiries.length ? "wants to know something" : `wants to use ${asked.tool}`;
  if (task.status === "pending") return [waits(task), task.silent].filter(Boolean).join("; ");
  if (!open && total.active) return `below: ${atWork(total.running, total.pending)}`;
  if (task.status === "completed") return task.step || "done";
  if (ACTIVE.has(task.status)) return task.step || (task.turns ? `turn ${task.turns}` : "begins…");
  return task.step ? `${WORDS[task.status]}: ${task.step}` : WORDS[task.status];
}

function waits(task) {
  return task.queue ? `waits in line, place ${task.queue}` : "waits to begin";
}

function figures(total) {
  const parts = [total.tokens ? `${count(total.tokens)} tok` : "", money(total.usd)];
  return parts.filter(Boolean).join(" · ");
}

customElements.define("gen-tree", Tree);
