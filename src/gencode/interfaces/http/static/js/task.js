// <gen-task>: one agent: who it is, how it is, what can be done to it, and its transcript.

import { get, may, task as at } from "./api.js";
import { fork, say, sayingOf, verbs } from "./acts.js";
import { Cards } from "./cards.js";
import { composer } from "./composer.js";
import { el, framed, icon, ICONS, put } from "./dom.js";
import { ACTIVE, atWork, count, duration, money, plural, WORDS } from "./format.js";
import { live } from "./live.js";
import { taskLink } from "./messages.js";
import { questions } from "./questions-store.js";
import { tasks } from "./store.js";
import "./transcript.js";

const MOST = 12;

class TaskView extends HTMLElement {
  #id = "";
  #parts = {};
  #shown = "";
  #timer = 0;
  #cards = null;
  #later = framed(() => this.#draw());

  async open(id) {
    this.#id = id;
    this.className = "taskview";
    let task = tasks.byId.get(id);
    if (!task) {
      const told = await get(at(id)).catch((error) => error);
      if (this.#id !== id) return;
      if (told instanceof Error) {
        this.replaceChildren(
          el(
            "div",
            { class: "empty" },
            el("h2", {}, "This task is not here"),
            el("p", {}, told.message),
            el("a", { href: "#/" }, "Begin something new"),
          ),
        );
        return;
      }
      task = tasks.take(told);
    }
    this.#id = task.id;
    this.#build(task);
    this.#draw();
    await this.#parts.transcript
      .open(task.id)
      .catch((error) => this.#parts.transcript.append(el("p", { class: "bad" }, error.message)));
  }

  connectedCallback() {
    tasks.addEventListener("change", this.#changed);
    questions.addEventListener("change", this.#later);
    live.addEventListener("again", this.#again);
    this.#timer = setInterval(() => {
      if (!document.hidden) this.#later();
    }, 1000);
  }

  disconnectedCallback() {
    tasks.removeEventListener("change", this.#changed);
    questions.removeEventListener("change", this.#later);
    live.removeEventListener("again", this.#again);
    clearInterval(this.#timer);
  }

  #changed = (event) => {
    if (event.detail.has(this.#id) || event.detail.size > 20) this.#later();
    else this.#family(event.detail);
  };

  #again = () => this.#parts.transcript?.refresh();

  #family(changed) {
    for (const id of changed)
      if (tasks.byId.get(id)?.parent === this.#id) {
        this.#later();
        return;
      }
  }

  focusWords() {
    this.#parts.words?.words.focus();
  }

  shows(asked) {
    return this.#isBelow(asked.task, this.#id);
  }

  press(verb) {
    this.querySelector(`.acts [data-verb=${verb}]`)?.click();
  }

  #build(task) {
    const parts = {
      path: el("nav", { class: "path", "aria-label": "Sent by" }),
      name: el("h1", {}),
      pill: el("span", { class: "pill" }, el("span", { class: "dot" }), el("span", {})),
      title: el("p", { class: "asked" }),
      facts: el("p", { class: "factline" }),
      acts: el("div", { class: "acts" }),
      below: el("div", { class: "below links" }),
      questions: el("div", { class: "waiting" }),
      transcript: el("gen-transcript"),
    };
    this.#parts = parts;
    this.#shown = "";
    this.#cards = new Cards(parts.questions, () => this.focusWords());
    parts.transcript.onfork = (seq) => fork(tasks.byId.get(task.id), seq);
    const head = el(
      "header",
      { class: "taskhead" },
      el("a", { class: "back", href: "#/tasks", "aria-label": "All agents" }, icon(ICONS.back)),
      el(
        "div",
        { class: "titles" },
        parts.path,
        el("div", { class: "nameline" }, parts.name, parts.pill),
        parts.title,
        parts.facts,
      ),
      parts.acts,
    );
    this.replaceChildren(head, parts.below, parts.transcript, parts.questions);
    if (may("act")) {
      parts.words = composer({
        label: "",
        key: `task ${task.id}`,
        send: (text) => say(tasks.byId.get(task.id), text),
      });
      this.append(parts.words);
    }
  }

  #draw() {
    const task = tasks.byId.get(this.#id);
    const { path, name, pill, title, facts, acts, words } = this.#parts;
    if (!task || !name) return;
    put(name, task.agent);
    pill.dataset.status = task.status;
    put(
      pill.lastChild,
      task.status === "pending" && task.queue ? `waiting, place ${task.queue}` : WORDS[task.status],
    );
    put(title, task.title);
    const total = tasks.total(task);
    const own = task.usage.inputTokens + task.usage.outputTokens;
    put(
      facts,
      [
        task.model,
        duration(tasks.elapsed(task)),
        task.background ? "in the background" : "",
        plural(task.turns, "turn"),
        own ? `${count(own)} tokens` : "",
        money(task.usage.usd),
        total.tasks ? [`tree ${count(total.tokens)} tokens`, money(total.usd)].filter(Boolean).join(" ") : "",
        task.id,
      ]
        .filter(Boolean)
        .join("  ·  "),
    );
    const above = [];
    for (let each = tasks.byId.get(task.parent); each; each = tasks.byId.get(each.parent))
      above.unshift(each);
    const works = ACTIVE.has(task.status);
    const shape = `${above.map((each) => each.id)}|${task.status}|${works && task.background}|${total.tasks > 0}|${total.active > 0}|${tasks.isConversation(task)}`;
    if (shape !== this.#shown) {
      this.#shown = shape;
      path.replaceChildren(
        ...above.flatMap((each) => [
          el("a", { href: `#/task/${each.id}` }, each.agent),
          el("span", { "aria-hidden": "true" }, "›"),
        ]),
      );
      acts.replaceChildren(...verbs(task));
      if (words) {
        const { verb, hint } = sayingOf(task);
        words.label(verb, hint);
      }
    }
    this.#drawBelow(task);
    this.#drawQuestions(task);
  }

  #drawBelow(task) {
    const all = tasks.below(task.id).filter((each) => ACTIVE.has(each.status));
    const pending = all.filter((each) => each.status === "pending").length;
    const active = all.slice(0, MOST);
    const ids = `${all.length} ${active.map((each) => `${each.id}${each.status}`).join()}`;
    if (this.#parts.below.dataset.ids === ids) return;
    this.#parts.below.dataset.ids = ids;
    this.#parts.below.replaceChildren(
      ...(active.length
        ? [
            el("span", { class: "faint" }, `For it: ${atWork(all.length - pending, pending)}`),
            ...active.map((each) => taskLink(each.id)),
            all.length > MOST ? el("span", { class: "faint" }, `and ${all.length - MOST} more`) : "",
          ]
        : []),
    );
  }

  // The questions of this agent and of those below it.
  #drawQuestions(task) {
    this.#cards.show(questions.open.filter((each) => this.#isBelow(each.task, task.id)));
  }

  #isBelow(id, root) {
    for (let each = id; each; each = tasks.byId.get(each)?.parent) if (each === root) return true;
    return false;
  }
}

customElements.define("gen-task", TaskView);
