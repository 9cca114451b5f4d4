// <gen-spending>: tokens, money and budgets, with what was used over time.

import { get, may, put as send } from "./api.js";
import { dialog, tried } from "./dialogs.js";
import { button, el, framed, line } from "./dom.js";
import { count, duration, money, plural, tokens, WORDS } from "./format.js";
import { plot } from "./plot.js";
import { tasks } from "./store.js";

const RANGES = [
  [1, 1, "1 h"],
  [6, 5, "6 h"],
  [24, 20, "24 h"],
  [168, 180, "7 days"],
];
const BOUNDS = [
  ["turns", "turns"],
  ["tokens", "tokens"],
  ["usd", "dollars"],
  ["seconds", "seconds"],
  ["spawns", "agents"],
];
const MOST = 8;
const FEWEST = 12;
const AGAIN_MS = 4000;

class Spending extends HTMLElement {
  #range = 0;
  #body = el("div", { class: "spendingbody" });
  #choice = el("div", { class: "kinds", role: "group", "aria-label": "How far back" });
  #timer = 0;
  #asked = 0;
  #stale = true;
  #later = framed(() => {
    this.#stale = true;
  });

  connectedCallback() {
    this.className = "spending";
    if (!this.firstChild) {
      RANGES.forEach(([, , label], place) =>
        this.#choice.append(
          el(
            "button",
            {
              type: "button",
              class: "chip",
              on: {
                click: () => {
                  this.#range = place;
                  this.#load();
                },
              },
            },
            label,
          ),
        ),
      );
      this.append(el("header", { class: "viewhead" }, el("h1", {}, "Spending"), this.#choice), this.#body);
    }
    tasks.addEventListener("change", this.#later);
    this.#timer = setInterval(() => {
      if (this.#stale && !document.hidden) this.#load();
    }, AGAIN_MS);
    this.#load();
  }

  disconnectedCallback() {
    tasks.removeEventListener("change", this.#later);
    clearInterval(this.#timer);
  }

  async #load() {
    this.#stale = false;
    this.#asked += 1;
    const asked = this.#asked;
    const [hours, minutes] = RANGES[this.#range];
    [...this.#choice.children].forEach((each, place) =>
      each.setAttribute("aria-pressed", String(place === this.#range)),
    );
    const told = await tried(() => get("/api/usage", { hours, minutes }));
    if (told && asked === this.#asked) this.#draw(told, hours, minutes);
  }

  #draw(told, hours, minutes) {
    const { total } = told;
    const step = minutes * 60_000;
    const to = Math.ceil(Date.now() / step) * step;
    const pieces = told.pieces
      .map(({ since, usage }) => ({ at: Date.parse(since), usage }))
      .filter((each) => each.at >= to - hours * 3_600_000);
    const from = Math.max(to - hours * 3_600_000, Math.min(pieces[0]?.at ?? 0, to - FEWEST * step));
    const used = pieces.map(({ at, usage }) => ({
      at,
      values: [usage.cachedTokens, Math.max(0, usage.inputTokens - usage.cachedTokens), usage.outputTokens],
    }));
    const paid = pieces.map(({ at, usage }) => ({ at, values: [usage.usd ?? 0] }));
    const label = RANGES[this.#range][2];
    this.#body.replaceChildren(
      ...[
        el(
          "div",
          { class: "meters" },
          figure(
            "Tokens",
            count(tokens(total)),
            `${count(total.inputTokens)} in, ${count(total.outputTokens)} out`,
          ),
          figure(
            "From cache",
            total.inputTokens ? `${Math.round((100 * total.cachedTokens) / total.inputTokens)} %` : "–",
            `${count(total.cachedTokens)} tokens`,
          ),
          figure(
            "Cost",
            money(total.usd) || "–",
            total.usd === null ? "no price is known" : `in the last ${label}`,
          ),
          figure(
            "Tasks",
            count(Object.values(told.tasks).reduce((one, other) => one + other, 0)),
            counts(told.tasks),
          ),
        ),
        used.length
          ? el(
              "div",
              { class: "plots" },
              plot({
                pieces: used,
                kinds: ["cached", "read", "written"],
                from,
                to,
                step,
                shown: (value) => count(Math.round(value)),
                label: "Tokens over time",
              }),
              total.usd
                ? plot({
                    pieces: paid,
                    kinds: ["dollars"],
                    from,
                    to,
                    step,
                    shown: (value) => money(value) || "$0",
                    label: "Cost over time",
                  })
                : null,
            )
          : el("p", { class: "empty" }, "Nothing was spent in this time."),
        this.#budget(told.budget),
        this.#largest(told.budget),
      ].filter(Boolean),
    );
  }

  #budget(budget) {
    const bounds = BOUNDS.filter(([name]) => (budget[name] ?? null) !== null).map(([name, word]) =>
      name === "usd"
        ? money(budget.usd)
        : name === "seconds"
          ? duration(budget.seconds * 1000)
          : `${count(budget[name])} ${word}`,
    );
    return el(
      "section",
      { class: "budget" },
      el("h2", {}, "Budget"),
      el(
        "p",
        {},
        bounds.length
          ? `Each conversation, with everything below it, may use ${bounds.join(", ")}.`
          : "Conversations have no bound. A budget ends one, with everything below it, when it has used it up.",
      ),
      may("act", "answer") ? button("Change the budget", () => this.#change(budget)) : null,
    );
  }

  // What the largest trees used, beside what each may.
  #largest(budget) {
    const roots = tasks
      .roots()
      .map((task) => ({ task, total: tasks.total(task) }))
      .sort((one, other) => other.total.tokens - one.total.tokens)
      .slice(0, MOST);
    if (!roots.length || !roots[0].total.tokens) return null;
    const most = roots[0].total.tokens;
    return el(
      "section",
      { class: "largest" },
      el("h2", {}, "Who used most"),
      el(
        "ul",
        {},
        roots
          .filter((each) => each.total.tokens)
          .map(({ task, total }) => {
            const bound = budget.tokens ?? most;
            const fill = el("i", {});
            fill.style.width = `${Math.min(100, (100 * total.tokens) / bound)}%`;
            return el(
              "li",
              {},
              el("a", { href: `#/task/${task.id}` }, line(task.title || task.agent, 70)),
              el(
                "span",
                {
                  class: "meter",
                  role: "meter",
                  "aria-valuenow": total.tokens,
                  "aria-valuemin": 0,
                  "aria-valuemax": bound,
                  "aria-label": "tokens",
                  data: { over: String(total.tokens > 0.8 * bound && Boolean(budget.tokens)) },
                },
                fill,
              ),
              el(
                "span",
                { class: "amount" },
                [`${count(total.tokens)} tok`, money(total.usd), plural(total.tasks + 1, "agent")]
                  .filter(Boolean)
                  .join(" · "),
              ),
            );
          }),
      ),
    );
  }

  #change(budget) {
    const fields = BOUNDS.map(([name, word]) =>
      el(
        "label",
        { class: "field" },
        `Most ${word}`,
        el("input", {
          type: "number",
          name,
          min: { usd: "0.01", spawns: "0" }[name] ?? "1",
          step: name === "usd" ? "0.01" : "1",
          value: budget[name] ?? "",
          placeholder: "no bound",
        }),
      ),
    );
    dialog({
      title: "Budget of each conversation",
      confirm: "Set the budget",
      body: [
        el("p", {}, "Counts from the next turn of every conversation, with all agents below it."),
        ...fields,
      ],
      act: async (form) => {
        const wish = {};
        for (const [name] of BOUNDS)
          if (form.elements[name].value) wish[name] = Number(form.elements[name].value);
        await send("/api/budget", wish);
        await this.#load();
      },
    });
  }
}

function figure(name, value, more) {
  return el(
    "div",
    { class: "figure" },
    el("span", { class: "name" }, name),
    el("strong", {}, value),
    el("span", { class: "faint" }, more),
  );
}

function counts(byStatus) {
  return (
    Object.entries(byStatus)
      .filter(([, number]) => number)
      .map(([status, number]) => `${number} ${WORDS[status]}`)
      .join(", ") || "none yet"
  );
}

customElements.define("gen-spending", Spending);
