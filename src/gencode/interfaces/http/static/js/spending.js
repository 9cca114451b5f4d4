// <gen-spending>: tokens, money and budgets, with what was used over time.

import { get, may, put as send } from "./api.js";
import { chart } from "./chart.js";
import { dialog, tried } from "./dialogs.js";
import { button, el, framed, line } from "./dom.js";
import { count, duration, money, plural, tokens, WORDS } from "./format.js";
import { tasks } from "./task-store.js";

/** @typedef {import("./api.js").Budget} Budget */
/** @typedef {import("./api.js").Spending} Spending */
/** @typedef {import("./api.js").Status} Status */

const RANGES = [
  { hours: 1, minutes: 1, label: "1 h", last: "last hour" },
  { hours: 6, minutes: 5, label: "6 h", last: "last 6 hours" },
  { hours: 24, minutes: 20, label: "24 h", last: "last 24 hours" },
  { hours: 168, minutes: 180, label: "7 days", last: "last 7 days" },
];
/** @type {{ name: keyof Budget, unit: string, min: string, step: string }[]} */
const LIMITS = [
  { name: "turns", unit: "turns", min: "1", step: "1" },
  { name: "tokens", unit: "tokens", min: "1", step: "1" },
  { name: "usd", unit: "dollars", min: "0.01", step: "0.01" },
  { name: "seconds", unit: "seconds", min: "1", step: "1" },
  { name: "spawns", unit: "subagents", min: "0", step: "1" },
];
const MOST = 8;
const FEWEST = 12;
const AGAIN_MS = 4000;

export class SpendingView extends HTMLElement {
  #range = RANGES[0];
  #body = el("div", { class: "spendingbody" });
  #choice = el("div", { class: "kinds", role: "group", "aria-label": "Period" });
  #timer = 0;
  #asked = 0;
  #stale = true;
  #later = framed(() => {
    this.#stale = true;
  });

  connectedCallback() {
    this.className = "spending";
    if (!this.firstChild) this.#build();
    tasks.changed.subscribe(this.#later);
    this.#timer = setInterval(() => {
      if (this.#stale && !document.hidden) this.#load();
    }, AGAIN_MS);
    this.#load();
  }

  disconnectedCallback() {
    tasks.changed.unsubscribe(this.#later);
    clearInterval(this.#timer);
  }

  #build() {
    for (const range of RANGES) {
      const click = () => {
        this.#range = range;
        this.#load();
      };
      this.#choice.append(el("button", { type: "button", class: "chip", on: { click } }, range.label));
    }
    this.append(el("header", { class: "viewhead" }, el("h1", {}, "Spending"), this.#choice), this.#body);
  }

  async #load() {
    this.#stale = false;
    this.#asked += 1;
    const asked = this.#asked;
    const { hours, minutes } = this.#range;
    for (const [place, each] of [...this.#choice.children].entries())
      each.setAttribute("aria-pressed", String(RANGES[place] === this.#range));
    /** @type {Spending | undefined} */
    const told = await tried(() => get("/api/usage", { hours, minutes }));
    if (told && asked === this.#asked) this.#draw(told);
  }

  /** @param {Spending} told */
  #draw(told) {
    const { budget } = told;
    const parts = [this.#meters(told), this.#charts(told), this.#budget(budget), this.#largest(budget)];
    this.#body.replaceChildren(...parts.filter((each) => each !== null));
  }

  /** @param {Spending} told */
  #meters({ total, tasks: counts }) {
    const cached = total.inputTokens
      ? `${Math.round((100 * total.cachedTokens) / total.inputTokens)} %`
      : "–";
    const all = Object.values(counts).reduce((one, other) => one + other, 0);
    const inAndOut = `${count(total.inputTokens)} in, ${count(total.outputTokens)} out`;
    return el(
      "div",
      { class: "meters" },
      figure("Tokens", count(tokens(total)), inAndOut),
      figure("From cache", cached, `${count(total.cachedTokens)} tokens`),
      figure("Cost", money(total.usd) || "–", total.usd === null ? "cost unknown" : this.#range.last),
      figure("Tasks", count(all), statuses(counts)),
    );
  }

  /** @param {Spending} told */
  #charts({ total, pieces: told }) {
    const { hours, minutes } = this.#range;
    const step = minutes * 60_000;
    const to = Math.ceil(Date.now() / step) * step;
    const first = to - hours * 3_600_000;
    const pieces = told
      .map(({ since, usage }) => ({ at: Date.parse(since), usage }))
      .filter((each) => each.at >= first);
    if (!pieces.length) return el("p", { class: "empty" }, "Nothing was spent in this period.");
    const from = Math.max(first, Math.min(pieces[0].at, to - FEWEST * step));
    const used = pieces.map(({ at, usage }) => ({
      at,
      values: [usage.cachedTokens, Math.max(0, usage.inputTokens - usage.cachedTokens), usage.outputTokens],
    }));
    const paid = pieces.map(({ at, usage }) => ({ at, values: [usage.usd ?? 0] }));
    const axis = { from, to, step };
    return el(
      "div",
      { class: "plots" },
      chart({
        ...axis,
        pieces: used,
        kinds: ["cached", "input", "output"],
        shown: (value) => count(Math.round(value)),
        label: "Tokens over time",
      }),
      total.usd
        ? chart({
            ...axis,
            pieces: paid,
            kinds: ["dollars"],
            shown: (value) => money(value) || "$0",
            label: "Cost over time",
          })
        : null,
    );
  }

  /** @param {Budget} budget */
  #budget(budget) {
    const limits = LIMITS.map(({ name, unit }) => limit(budget[name] ?? null, name, unit)).filter(Boolean);
    return el(
      "section",
      { class: "budget" },
      el("h2", {}, "Budget"),
      el(
        "p",
        {},
        limits.length
          ? `Each conversation with its subagents may use ${limits.join(", ")}.`
          : "Conversations have no budget. A budget stops a conversation and its subagents when it is used up.",
      ),
      may("act", "answer") ? button("Change budget", () => this.#change(budget)) : null,
    );
  }

  /**
   * What the largest trees used, beside what each may.
   * @param {Budget} budget
   */
  #largest(budget) {
    const roots = tasks
      .roots()
      .map((task) => ({ task, total: tasks.total(task) }))
      .filter((each) => each.total.tokens)
      .sort((one, other) => other.total.tokens - one.total.tokens)
      .slice(0, MOST);
    if (!roots.length) return null;
    const most = budget.tokens ?? roots[0].total.tokens;
    const items = roots.map(({ task, total }) => {
      const fill = el("i", {});
      fill.style.width = `${Math.min(100, (100 * total.tokens) / most)}%`;
      const meter = {
        class: "meter",
        role: "meter",
        "aria-valuenow": total.tokens,
        "aria-valuemin": 0,
        "aria-valuemax": most,
        "aria-label": "tokens",
        data: { over: String(total.tokens > 0.8 * most && Boolean(budget.tokens)) },
      };
      const amounts = [
        `${count(total.tokens)} tok`,
        money(total.usd),
        total.tasks ? plural(total.tasks, "subagent") : "",
      ];
      return el(
        "li",
        {},
        el("a", { href: `#/task/${task.id}` }, line(task.title || task.agent, 70)),
        el("span", meter, fill),
        el("span", { class: "amount" }, amounts.filter(Boolean).join(" · ")),
      );
    });
    return el("section", { class: "largest" }, el("h2", {}, "Most tokens used"), el("ul", {}, items));
  }

  /** @param {Budget} budget */
  #change(budget) {
    const inputs = LIMITS.map(({ name, min, step }) =>
      el("input", { type: "number", name, min, step, value: budget[name] ?? "", placeholder: "no limit" }),
    );
    const fields = LIMITS.map(({ unit }, place) =>
      el("label", { class: "field" }, `Maximum ${unit}`, inputs[place]),
    );
    dialog({
      title: "Budget of each conversation",
      confirm: "Set budget",
      body: [
        el("p", {}, "Applies from the next turn of every conversation, with all its subagents."),
        ...fields,
      ],
      act: async () => {
        const wish = inputs.filter((each) => each.value).map((each) => [each.name, Number(each.value)]);
        await send("/api/budget", Object.fromEntries(wish));
        await this.#load();
      },
    });
  }
}

/**
 * @param {number | null} amount
 * @param {keyof Budget} name
 * @param {string} unit
 */
function limit(amount, name, unit) {
  if (amount === null) return "";
  if (name === "usd") return money(amount);
  if (name === "seconds") return duration(amount * 1000);
  return `${count(amount)} ${unit}`;
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} more
 */
function figure(name, value, more) {
  return el(
    "div",
    { class: "figure" },
    el("span", { class: "name" }, name),
    el("strong", {}, value),
    el("span", { class: "faint" }, more),
  );
}

/** @param {Record<Status, number>} counts */
function statuses(counts) {
  const found = /** @type {[Status, number][]} */ (Object.entries(counts));
  return (
    found
      .filter(([, number]) => number)
      .map(([status, number]) => `${number} ${WORDS[status]}`)
      .join(", ") || "none yet"
  );
}

customElements.define("gen-spending", SpendingView);
