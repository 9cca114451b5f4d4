// <gen-task>: one agent: what it is, how it is, what can be done to it, and its transcript.

import { may, reason } from "./api.js";
import { Composer } from "./composer.js";
import { el, framed, icon, ICONS, put } from "./dom.js";
import { stream } from "./event-stream.js";
import { ACTIVE, atWork, count, duration, money, plural, WORDS } from "./format.js";
import { questions } from "./question-store.js";
import { QuestionCards } from "./questions.js";
import { queued } from "./agent-tree.js";
import { notify, tried } from "./dialogs.js";
import { offlineBanner, sessionChoice } from "./session-choice.js";
import { rewind } from "./rewind.js";
import { actions, composerWords, fork, sendMessage, whyNot } from "./task-actions.js";
import { tasks } from "./task-store.js";
import { Transcript } from "./transcript.js";
import { taskLink } from "./transcript-entries.js";

/** @typedef {import("./task-store.js").Task} Task */

const MOST = 12;
const MANY = 20;

export class TaskView extends HTMLElement {
  #id = "";
  #shown = "";
  #timer = 0;
  #path = el("nav", { class: "path", "aria-label": "Started by" });
  #name = el("h1", {});
  #status = el("span", {});
  #pill = el("span", { class: "pill" }, el("span", { class: "dot" }), this.#status);
  #title = el("p", { class: "asked" });
  #facts = el("p", { class: "factline" });
  #actions = el("div", { class: "acts" });
  #below = el("div", { class: "below links" });
  #questions = el("div", { class: "waiting" });
  #cards = new QuestionCards(this.#questions, () => this.focusComposer());
  #transcript = new Transcript((seq) => this.#branch(seq));
  /** @type {Composer | null} */
  #composer = null;
  #later = framed(() => this.#draw());

  /** @param {string} id */
  async open(id) {
    this.#id = id;
    this.className = "taskview";
    let task = tasks.byId.get(id);
    if (!task) {
      /** @type {Task[] | Error} */
      const told = await tasks.ask([id]).catch((error) => error);
      if (this.#id !== id) return;
      if (told instanceof Error) {
        this.#missing(told);
        return;
      }
      [task] = told;
    }
    this.#id = task.id;
    this.#build(task);
    this.#draw();
    await this.#transcript
      .open(task.id)
      .catch((error) => this.#transcript.append(el("p", { class: "bad" }, reason(error))));
  }

  connectedCallback() {
    tasks.changed.subscribe(this.#changed);
    questions.changed.subscribe(this.#later);
    stream.caughtUp.subscribe(this.#caughtUp);
    this.#timer = setInterval(() => {
      if (!document.hidden) this.#later();
    }, 1000);
  }

  disconnectedCallback() {
    tasks.changed.unsubscribe(this.#changed);
    questions.changed.unsubscribe(this.#later);
    stream.caughtUp.unsubscribe(this.#caughtUp);
    clearInterval(this.#timer);
  }

  #changed = (/** @type {Set<string>} */ changed) => {
    const isChild = (/** @type {string} */ id) => tasks.byId.get(id)?.parent === this.#id;
    if (changed.size > MANY || changed.has(this.#id) || [...changed].some(isChild)) this.#later();
  };

  #caughtUp = () => {
    this.#transcript.refresh();
  };

  focusComposer() {
    this.#composer?.focus();
  }

  /**
   * Whether the card of a question is in this view.
   * @param {import("./question-store.js").Question} question
   */
  shows(question) {
    return tasks.isWithin(question.task, this.#id);
  }

  /** @param {string} verb */
  press(verb) {
    const found = this.#actions.querySelector(`[data-verb=${verb}]`);
    const task = tasks.byId.get(this.#id);
    if (found instanceof HTMLElement) found.click();
    else if (task) notify(whyNot(verb, task));
  }

  /** @param {Error} error */
  #missing(error) {
    this.replaceChildren(
      el(
        "div",
        { class: "empty" },
        el("h2", {}, "Task not found"),
        el("p", {}, error.message),
        el("a", { href: "#/" }, "Start a conversation"),
      ),
    );
  }

  /** @param {Task} task */
  #build(task) {
    this.#shown = "";
    const head = el(
      "header",
      { class: "taskhead" },
      el("a", { class: "back", href: "#/tasks", "aria-label": "All agents" }, icon(ICONS.back)),
      el(
        "div",
        { class: "titles" },
        this.#path,
        el("div", { class: "nameline" }, this.#name, this.#pill),
        this.#title,
        this.#facts,
      ),
      this.#actions,
    );
    const banner = task.conversation ? [offlineBanner()] : [];
    this.replaceChildren(head, ...banner, this.#below, this.#transcript, this.#questions);
    if (!may("act")) return;
    this.#composer = new Composer({
      label: "",
      key: `task ${task.id}`,
      beside: task.conversation ? [sessionChoice()] : [],
      send: async (text) => {
        const now = tasks.byId.get(task.id);
        if (now) await sendMessage(now, text);
      },
    });
    this.append(this.#composer.form);
  }

  /**
   * A conversation goes back to one of its prompts; the task of a subagent is forked.
   * @param {number} seq
   */
  #branch(seq) {
    const task = tasks.byId.get(this.#id);
    if (!task) return;
    if (task.conversation) void tried(() => rewind(task, this.#rewound, seq));
    else fork(task, seq);
  }

  /** @param {string} prompt */
  #rewound = (prompt) => {
    this.#transcript.open(this.#id).catch(() => {});
    if (prompt) this.#composer?.write(prompt);
  };

  #draw() {
    const task = tasks.byId.get(this.#id);
    if (!task || !this.#name.isConnected) return;
    put(this.#name, task.agent);
    this.#pill.dataset.status = task.status;
    put(this.#status, task.status === "pending" ? queued(task) : WORDS[task.status]);
    put(this.#title, task.title);
    const total = tasks.total(task);
    const own = task.usage.inputTokens + task.usage.outputTokens;
    const whole = [`${count(total.tokens)} tokens`, money(total.usd)].filter(Boolean).join(", ");
    const facts = [
      task.model,
      duration(tasks.elapsed(task)),
      task.background ? "in the background" : "",
      plural(task.turns, "turn"),
      own ? `${count(own)} tokens` : "",
      money(task.usage.usd),
      total.tasks && total.tokens ? `with subagents ${whole}` : "",
      task.id,
    ];
    put(this.#facts, facts.filter(Boolean).join("  ·  "));
    this.#drawShape(task, total);
    this.#drawBelow(task);
    this.#cards.show(questions.open.filter((each) => this.shows(each)));
  }

  /**
   * What only depends on where a task is and on its status.
   * @param {Task} task
   * @param {import("./task-store.js").Total} total
   */
  #drawShape(task, total) {
    const above = [];
    for (let each = tasks.parentOf(task); each; each = tasks.parentOf(each)) above.unshift(each);
    const inBackground = ACTIVE.has(task.status) && task.background;
    const path = above.map((each) => each.id);
    const shape = JSON.stringify([path, task.status, inBackground, total.tasks > 0, total.active > 0]);
    if (shape === this.#shown) return;
    this.#shown = shape;
    this.#path.replaceChildren(
      ...above.flatMap((each) => [
        el("a", { href: `#/task/${each.id}` }, each.agent),
        el("span", { "aria-hidden": "true" }, "›"),
      ]),
    );
    this.#actions.replaceChildren(...actions(task, this.#rewound));
    const { verb, hint } = composerWords(task);
    this.#composer?.label(verb, hint);
  }

  /** @param {Task} task */
  #drawBelow(task) {
    const all = tasks.below(task.id).filter((each) => ACTIVE.has(each.status));
    const pending = all.filter((each) => each.status === "pending").length;
    const active = all.slice(0, MOST);
    const ids = `${all.length} ${active.map((each) => `${each.id}${each.status}`).join()}`;
    if (this.#below.dataset.ids === ids) return;
    this.#below.dataset.ids = ids;
    const links = [
      el("span", { class: "faint" }, `Subagents: ${atWork(all.length - pending, pending)}`),
      ...active.map((each) => taskLink(each.id)),
      ...(all.length > MOST ? [el("span", { class: "faint" }, `and ${all.length - MOST} more`)] : []),
    ];
    this.#below.replaceChildren(...(active.length ? links : []));
  }
}

customElements.define("gen-task", TaskView);
