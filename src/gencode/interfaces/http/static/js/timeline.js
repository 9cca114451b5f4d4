// <gen-timeline>: who worked when. Solid is work, hatched is waiting in line, thin is waiting for others,
// dotted is waiting for a person.

import { el, framed, line, put } from "./dom.js";
import { ACTIVE, clock, duration, moment, WORDS } from "./format.js";
import { questions } from "./questions-store.js";
import { go } from "./router.js";
import { tasks } from "./store.js";
import "./rows.js";

const MINUTE = 60_000;
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
const MOMENT = 5000;
const MOST = 40;

class Timeline extends HTMLElement {
  #range = "fit";
  #span = [0, 1];
  #timer = 0;
  #shape = -1;
  #rows = el("gen-rows", { role: "listbox", "aria-label": "Timeline", class: "lanes" });
  #axis = el("div", { class: "axis", "aria-hidden": "true" });
  #empty = el(
    "p",
    { class: "empty" },
    "Nothing worked in this time. Choose a longer one, or begin something.",
  );
  #choice = el("div", { class: "kinds", role: "group", "aria-label": "How far back" });
  #later = framed(() => this.#list());

  connectedCallback() {
    this.className = "timeline";
    if (!this.firstChild) this.#build();
    tasks.addEventListener("change", this.#changed);
    questions.addEventListener("change", this.#later);
    this.#timer = setInterval(() => {
      if (!document.hidden) this.#later();
    }, 1000);
    this.#later();
  }

  disconnectedCallback() {
    tasks.removeEventListener("change", this.#changed);
    questions.removeEventListener("change", this.#later);
    clearInterval(this.#timer);
  }

  #changed = () => {
    if (this.#shape !== tasks.shape) this.#later();
  };

  #build() {
    for (const [range, label] of RANGES) {
      this.#choice.append(
        el(
          "button",
          {
            type: "button",
            class: "chip",
            data: { range },
            on: {
              click: () => {
                this.#range = range;
                this.#later();
              },
            },
          },
          label,
        ),
      );
    }
    const legend = el(
      "p",
      { class: "legend" },
      swatch("work", "works"),
      swatch("line", "waits in line"),
      swatch("others", "waits for others"),
      swatch("asks", "waits for a person"),
    );
    this.#rows.height = 32;
    this.#rows.make = made;
    this.#rows.draw = (row, item) => this.#draw(row, item);
    this.#rows.keyOf = (item) => item.task.id;
    this.#rows.addEventListener("pick", (event) => go(`/task/${event.detail.task.id}`));
    this.append(
      el("header", { class: "viewhead" }, el("h1", {}, "Timeline"), legend, this.#choice),
      el("div", { class: "axisline" }, this.#axis),
      this.#rows,
      this.#empty,
    );
  }

  #list() {
    this.#shape = tasks.shape;
    for (const each of this.#choice.children)
      each.setAttribute("aria-pressed", String(each.dataset.range === String(this.#range)));
    const now = Date.now();
    const [from, to] = (this.#span = this.#window(now));
    const items = [];
    const visit = (task, depth) => {
      const place = items.length;
      items.push({ task, depth });
      for (const child of tasks.below(task.id)) visit(child, depth + 1);
      if (items.length === place + 1 && !meets(task, from, to, now)) items.pop();
    };
    for (const root of tasks.roots()) visit(root, 0);
    this.#rows.show(items);
    this.#rows.hidden = items.length === 0;
    this.#axis.parentNode.hidden = items.length === 0;
    this.#empty.hidden = items.length > 0;
    this.#ticks(from, to);
  }

  #window(now) {
    const all = [...tasks.byId.values()];
    const works = all.some((each) => ACTIVE.has(each.status));
    const end = works || !all.length ? now : Math.max(...all.map((each) => each.ended ?? each.created));
    let from = end - Number(this.#range);
    if (this.#range === "all") from = Math.min(end, ...all.map((each) => each.created));
    if (this.#range === "fit") from = Math.min(end, ...latest(works).map((each) => each.created));
    const span = Math.max(end - from, LEAST);
    return [from - span * 0.01, from + span * 1.03];
  }

  #ticks(from, to) {
    const seconds = (to - from) / 1000;
    const most = Math.max(2, Math.floor(this.#axis.clientWidth / 110));
    const step = (STEPS.find((each) => seconds / each <= most) ?? 604800) * 1000;
    const offset = new Date(from).getTimezoneOffset() * MINUTE;
    const made = [];
    for (
      let at = Math.ceil((from - offset) / step) * step + offset;
      at < to - 0.05 * (to - from);
      at += step
    ) {
      const tick = el("span", { class: "tick" }, step < MINUTE ? clock(at) : moment(at));
      tick.style.left = `${(100 * (at - from)) / (to - from)}%`;
      made.push(tick);
    }
    this.#axis.replaceChildren(...made);
  }

  #draw(row, { task, depth }) {
    const { name, track, time } = row.parts;
    const now = Date.now();
    if (unknown(task, now)) tasks.learnRuns(task);
    const [from, to] = this.#span;
    row.style.setProperty("--depth", Math.min(depth, 8));
    row.dataset.status = task.status;
    put(name, task.agent);
    put(row.parts.title, task.title);
    put(time, duration(tasks.elapsed(task, now)));
    const bars = barsOf(task, now);
    while (track.children.length > bars.length) track.lastChild.remove();
    while (track.children.length < bars.length) track.append(el("i"));
    bars.forEach(([kind, begin, end], place) => {
      const bar = track.children[place];
      const left = Math.min(Math.max((begin - from) / (to - from), 0), 1);
      const right = Math.min(Math.max((end - from) / (to - from), 0), 1);
      bar.className = `bar ${kind}`;
      bar.style.left = `${100 * left}%`;
      bar.style.width = `max(${100 * (right - left)}%, ${end >= from && begin <= to ? 3 : 0}px)`;
    });
    const label = `${task.agent}, ${WORDS[task.status]}, ${moment(task.created)}, ${duration(tasks.elapsed(task, now))}: ${line(task.title, 80)}`;
    row.setAttribute("aria-label", label);
    row.title = label;
  }
}

function made() {
  const parts = {
    name: el("b", {}),
    title: el("span", { class: "title" }),
    track: el("span", { class: "track" }),
    time: el("span", { class: "time" }),
  };
  const row = el(
    "div",
    { role: "option", class: "lane" },
    el("span", { class: "label" }, el("span", { class: "dot" }), parts.name, parts.title),
    parts.track,
    parts.time,
  );
  row.parts = parts;
  return row;
}

function swatch(kind, text) {
  return el("span", { class: "swatch" }, el("i", { class: `bar ${kind}` }), text);
}

// The trees at work, or the last one that was.
function latest(works) {
  const roots = tasks.roots();
  const found = works
    ? roots.filter((each) => ACTIVE.has(each.status) || tasks.total(each).active > 0)
    : roots.slice(0, 1);
  return found.slice(0, 200);
}

function endOf(task, now) {
  return ACTIVE.has(task.status) ? now : (task.ended ?? task.started ?? task.created);
}

function meets(task, from, to, now) {
  return task.created < to && endOf(task, now) > from;
}

// Whether its facts are still to be read; who was done in a moment has waited for nobody.
function unknown(task, now) {
  if (tasks.isConversation(task)) return !task.runs;
  return !task.waits && task.started && endOf(task, now) - task.started > MOMENT;
}

function barsOf(task, now) {
  const begin = task.started ?? endOf(task, now);
  const end = endOf(task, now);
  const bars = begin - task.created > 20 ? [["line", task.created, begin]] : [];
  if (!task.started) return bars;
  const rests = (task.waits?.rests ?? []).slice(-MOST).map(([from, to]) => [from, to ?? end]);
  const others = [...waits(task, begin, end, now), ...rests];
  const asks = [...asked(task, now), ...(task.waits?.asks ?? []).slice(-MOST)];
  const runs = task.runs?.length ? task.runs : [[begin, end]];
  for (const [from, to] of runs) bars.push(...parts(from, to ?? end, others, asks));
  return bars;
}

// One run, cut where it waited; who waits for a person does so whatever else goes on.
function parts(from, to, others, asks) {
  const edges = [...others, ...asks].flat().filter((each) => each > from && each < to);
  const cuts = [from, ...new Set(edges.sort((one, other) => one - other)), to];
  const made = [];
  for (let place = 1; place < cuts.length; place += 1) {
    const middle = (cuts[place - 1] + cuts[place]) / 2;
    const within = (spans) => spans.some(([begin, end]) => begin <= middle && middle <= end);
    const kind = within(asks) ? "asks" : within(others) ? "others" : "work";
    const last = made.at(-1);
    if (last?.[0] === kind) last[2] = cuts[place];
    else made.push([kind, cuts[place - 1], cuts[place]]);
  }
  return made;
}

function asked(task, now) {
  const found = [...questions.waits.values()].filter((each) => each.task === task.id);
  return found.slice(-MOST).map(({ from, to }) => [from, to ?? now]);
}

// The times in which it waited for agents that it sent, put together where they overlap.
function waits(task, begin, end, now) {
  const spans = tasks
    .below(task.id)
    .filter((each) => !each.background)
    .map((each) => [Math.max(each.created, begin), Math.min(endOf(each, now), end)])
    .filter(([from, to]) => to > from);
  spans.sort((one, other) => one[0] - other[0]);
  const joined = [];
  for (const [from, to] of spans) {
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined.slice(0, MOST);
}

customElements.define("gen-timeline", Timeline);
