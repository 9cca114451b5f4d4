// <gen-timeline>: who worked when. Solid is work, hatched is the queue, thin is waiting for agents, dotted is
// waiting for a person. The server tells these times; here they are only drawn.

import { get } from "./api.js";
import { el, fill, framed, line, put } from "./dom.js";
import { ACTIVE, clock, duration, moment, WORDS } from "./format.js";
import { go } from "./router.js";
import { tasks } from "./task-store.js";
import { VirtualList } from "./virtual-list.js";

/** @typedef {import("./api.js").TaskTimes} TaskTimes */
/** @typedef {import("./api.js").Activity} Activity */
/** @typedef {import("./task-store.js").Task} Task */
/** @typedef {{ id: string, task: Task, depth: number }} Item */
/** @typedef {ReturnType<typeof makeRow>["parts"]} Parts */
/** @typedef {{ activity: Activity, from: number, to: number }} Bar */

const MINUTE = 60_000;
/** @type {[range: number | "fit" | "all", label: string][]} */
const RANGES = [
  ["fit", "Latest"],
  [15 * MINUTE, "15 min"],
  [60 * MINUTE, "1 h"],
  [6 * 60 * MINUTE, "6 h"],
  [24 * 60 * MINUTE, "24 h"],
  ["all", "All"],
];
const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
];
const LEAST = 5000;
const MOMENT_MS = 20;
const MOST_BARS = 80;
const MOST_IDS = 90;
const TICK_MS = 1000;

export class Timeline extends HTMLElement {
  /** @type {number | "fit" | "all"} */
  #range = "fit";
  #span = { from: 0, to: 1 };
  #timer = 0;
  #shape = -1;
  /** @type {Map<string, TaskTimes>} */
  #times = new Map();
  /**
   * The tasks in sight whose times have to be read.
   * @type {Set<string>}
   */
  #stale = new Set();
  #reading = false;
  /** @type {VirtualList<Item, Parts>} */
  #rows = fill(
    new VirtualList({ make: makeRow, draw: (row, parts, item) => this.#draw(row, parts, item) }, 32),
    { role: "listbox", "aria-label": "Timeline", class: "lanes" },
  );
  #axis = el("div", { class: "axis", "aria-hidden": "true" });
  #axisLine = el("div", { class: "axisline" }, this.#axis);
  #empty = el("p", { class: "empty" }, "No agents ran in this period. Choose a longer one.");
  #choice = el("div", { class: "kinds", role: "group", "aria-label": "Period" });
  #later = framed(() => this.#list());

  connectedCallback() {
    this.className = "timeline";
    if (!this.firstChild) this.#build();
    tasks.changed.subscribe(this.#changed);
    this.#timer = setInterval(() => {
      if (document.hidden) return;
      this.#later();
      this.#read();
    }, TICK_MS);
    this.#later();
  }

  disconnectedCallback() {
    tasks.changed.unsubscribe(this.#changed);
    clearInterval(this.#timer);
  }

  #changed = () => {
    if (this.#shape !== tasks.shape) this.#later();
  };

  #build() {
    for (const [range, label] of RANGES) {
      const click = () => {
        this.#range = range;
        this.#later();
      };
      const given = { type: "button", class: "chip", data: { range: String(range) }, on: { click } };
      this.#choice.append(el("button", given, label));
    }
    const legend = el(
      "p",
      { class: "legend" },
      swatch("working", "working"),
      swatch("queued", "queued"),
      swatch("waiting_for_agents", "waiting for agents"),
      swatch("waiting_for_person", "waiting for a person"),
    );
    this.#rows.picked.subscribe(({ id }) => go(`/task/${id}`));
    this.append(
      el("header", { class: "viewhead" }, el("h1", {}, "Timeline"), legend, this.#choice),
      this.#axisLine,
      this.#rows,
      this.#empty,
    );
  }

  #list() {
    this.#shape = tasks.shape;
    for (const each of this.#choice.querySelectorAll("button"))
      each.setAttribute("aria-pressed", String(each.dataset.range === String(this.#range)));
    const now = Date.now();
    const { from, to } = (this.#span = this.#window(now));
    /** @type {Item[]} */
    const items = [];
    /** @type {(task: Task, depth: number) => void} */
    const visit = (task, depth) => {
      const place = items.length;
      items.push({ id: task.id, task, depth });
      for (const child of tasks.below(task.id)) visit(child, depth + 1);
      if (items.length === place + 1 && !meets(task, from, to, now)) items.pop();
    };
    for (const root of tasks.roots()) visit(root, 0);
    this.#rows.show(items);
    this.#rows.hidden = items.length === 0;
    this.#axisLine.hidden = items.length === 0;
    this.#empty.hidden = items.length > 0;
    this.#ticks(from, to);
  }

  /** @param {number} now */
  #window(now) {
    const all = [...tasks.byId.values()];
    const isLive = all.some((each) => ACTIVE.has(each.status));
    const end = isLive || !all.length ? now : Math.max(...all.map((each) => each.ended ?? each.created));
    let from = end - Number(this.#range);
    if (this.#range === "all") from = Math.min(end, ...all.map((each) => each.created));
    if (this.#range === "fit") from = Math.min(end, ...latest(isLive).map((each) => each.created));
    const span = Math.max(end - from, LEAST);
    return { from: from - span * 0.01, to: from + span * 1.03 };
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  #ticks(from, to) {
    const seconds = (to - from) / 1000;
    const most = Math.max(2, Math.floor(this.#axis.clientWidth / 110));
    const step = (STEPS.find((each) => seconds / each <= most) ?? 604800) * 1000;
    const offset = new Date(from).getTimezoneOffset() * MINUTE;
    const first = Math.ceil((from - offset) / step) * step + offset;
    const ticks = [];
    for (let at = first; at < to - 0.05 * (to - from); at += step) {
      const tick = el("span", { class: "tick" }, step < MINUTE ? clock(at) : moment(at));
      tick.style.left = `${(100 * (at - from)) / (to - from)}%`;
      ticks.push(tick);
    }
    this.#axis.replaceChildren(...ticks);
  }

  /**
   * @param {HTMLElement} row
   * @param {Parts} parts
   * @param {Item} item
   */
  #draw(row, { name, title, track, time, status }, { task, depth }) {
    const now = Date.now();
    const known = this.#times.get(task.id);
    if (!known || known.seq < task.seq) this.#want(task.id);
    const { from, to } = this.#span;
    row.style.setProperty("--depth", String(Math.min(depth, 8)));
    row.dataset.status = task.status;
    put(name, task.title || task.agent);
    put(title, task.title ? task.agent : "");
    put(time, duration(tasks.elapsed(task, now)));
    const bars = known ? barsOf(known, now) : roughBarsOf(task, now);
    track.replaceChildren(
      ...bars.map((each) => {
        const bar = el("i", { class: `bar ${each.activity}` });
        const left = Math.min(Math.max((each.from - from) / (to - from), 0), 1);
        const right = Math.min(Math.max((each.to - from) / (to - from), 0), 1);
        bar.style.left = `${100 * left}%`;
        bar.style.width = `max(${100 * (right - left)}%, ${each.to >= from && each.from <= to ? 3 : 0}px)`;
        return bar;
      }),
    );
    const facts = [WORDS[task.status], moment(task.created), duration(tasks.elapsed(task, now))];
    const label = [line(task.title, 80), task.agent, ...facts].filter(Boolean).join(", ");
    put(status, WORDS[task.status]);
    row.title = label;
  }

  /** @param {string} id */
  #want(id) {
    const isFirst = !this.#times.has(id);
    this.#stale.add(id);
    if (isFirst) queueMicrotask(() => this.#read());
  }

  async #read() {
    if (this.#reading || !this.#stale.size) return;
    this.#reading = true;
    const ids = [...this.#stale].slice(0, MOST_IDS);
    this.#stale.clear();
    const told = await get("/api/times", { id: ids }).catch(() => null);
    this.#reading = false;
    if (!told) return;
    for (const each of told.tasks) this.#times.set(each.agentId, each);
    this.#rows.refresh();
  }
}

function makeRow() {
  const parts = {
    name: el("b", {}),
    title: el("span", { class: "title" }),
    track: el("span", { class: "track" }),
    time: el("span", { class: "time" }),
    status: el("span", { class: "unseen" }),
  };
  const row = el(
    "div",
    { role: "option", class: "lane" },
    el("span", { class: "label" }, el("span", { class: "dot" }), parts.status, parts.name, parts.title),
    parts.track,
    parts.time,
  );
  return { row, parts };
}

/**
 * @param {Activity} activity
 * @param {string} text
 */
function swatch(activity, text) {
  return el("span", { class: "swatch" }, el("i", { class: `bar ${activity}` }), text);
}

/**
 * The trees at work, or the last one that was.
 * @param {boolean} isLive
 */
function latest(isLive) {
  const roots = tasks.roots();
  const found = isLive
    ? roots.filter((each) => ACTIVE.has(each.status) || tasks.total(each).active > 0)
    : roots.slice(0, 1);
  return found.slice(0, 200);
}

/**
 * @param {Task} task
 * @param {number} now
 */
function endOf(task, now) {
  return ACTIVE.has(task.status) ? now : (task.ended ?? task.started ?? task.created);
}

/**
 * @param {Task} task
 * @param {number} from
 * @param {number} to
 * @param {number} now
 */
function meets(task, from, to, now) {
  return task.created < to && endOf(task, now) > from;
}

/**
 * @param {TaskTimes} times
 * @param {number} now
 * @returns {Bar[]}
 */
function barsOf(times, now) {
  const bars = times.spans.slice(-MOST_BARS).map(({ activity, since, until }) => ({
    activity,
    from: Date.parse(since),
    to: until === null ? now : Date.parse(until),
  }));
  return bars.filter((each) => each.activity !== "queued" || each.to - each.from > MOMENT_MS);
}

/**
 * What the state of a task tells of its times, until they are read.
 * @param {Task} task
 * @param {number} now
 * @returns {Bar[]}
 */
function roughBarsOf(task, now) {
  const end = endOf(task, now);
  const begin = task.started ?? end;
  /** @type {Bar[]} */
  const bars = begin - task.created > MOMENT_MS ? [{ activity: "queued", from: task.created, to: begin }] : [];
  if (task.started !== null) bars.push({ activity: "working", from: begin, to: end });
  return bars;
}

customElements.define("gen-timeline", Timeline);
