// Pending questions: a card for each (who wants to do exactly what, why, what would change), and the view.

import { may, reason } from "./api.js";
import { diff } from "./diff.js";
import { notify } from "./dialogs.js";
import { button, el, exact, framed } from "./dom.js";
import { clock } from "./format.js";
import { questions } from "./question-store.js";
import { tasks } from "./task-store.js";
import { mono } from "./transcript-entries.js";

/** @typedef {import("./question-store.js").Question} Question */
/** @typedef {import("./api.js").Answer} Answer */

/** @type {Record<string, string>} */
const REACHES = {
  call: "once",
  agent: "for this agent",
  subtree: "for this agent and its subagents",
  session: "for all agents, until the server stops",
  always: "always, in every folder (saved in your settings)",
};

/** @param {Question} question */
function title(question) {
  return question.inquiries.length ? "has a question" : `needs approval to use ${question.tool}`;
}

/**
 * The card of a question.
 * @param {Question} question
 */
export function questionCard(question) {
  const trouble = el("p", { class: "bad", role: "alert", hidden: true });
  const form = el(
    "form",
    {
      class: "question",
      "aria-label": `${question.agent} ${title(question)}`,
      tabindex: "-1",
      data: { question: String(question.number) },
    },
    el(
      "p",
      { class: "asker" },
      el("span", { class: "sign", "aria-hidden": "true" }, "?"),
      el("a", { href: `#/task/${question.task}` }, exact(question.path.join(" › ") || question.agent)),
      ` ${exact(title(question))}`,
    ),
    placeOf(question),
    question.inquiries.length ? question.inquiries.map(inquiry) : call(question),
    deadline(question),
  );
  if (may("answer")) form.append(trouble, ...choices(question));
  else form.append(el("p", { class: "faint" }, "Your token cannot answer questions."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(question, form, true, trouble);
  });
  form.querySelector("[data-deny]")?.addEventListener("click", () => answer(question, form, false, trouble));
  return form;
}

/**
 * The folder in which it would run and, of another process, the machine that asks.
 * @param {Question} question
 */
function placeOf(question) {
  const parts = [
    question.cwd ? `in ${question.cwd}` : "",
    question.place ? `asked by another process on ${question.place}` : "",
  ].filter(Boolean);
  return parts.length ? el("p", { class: "where" }, exact(parts.join(" · "))) : null;
}

/**
 * What happens, and when, if nobody answers.
 * @param {Question} question
 */
function deadline(question) {
  if (!question.until) return null;
  const at = clock(Date.parse(question.until));
  const defaults = question.inquiries.map((each) => each.default || "no answer").join(" · ");
  const then = defaults ? `Default at ${at}: ${defaults}` : `Waits for your answer until ${at}, then it is declined`;
  return el("p", { class: "where" }, then);
}

/**
 * The whole call, to the letter, and what it would change.
 * @param {Question} question
 */
function call(question) {
  const input = { ...question.input };
  if (question.preview) for (const each of ["content", "old_string", "new_string", "edits"]) delete input[each];
  const fields = Object.entries(input).map(([name, value]) => [
    el("dt", {}, exact(name)),
    el("dd", {}, mono(exact(typeof value === "string" ? value : JSON.stringify(value, null, 2)))),
  ]);
  const { why, rule } = question.decision;
  return [
    el("dl", { class: "given" }, fields),
    question.preview ? diff(exact(question.preview)) : null,
    question.preview
      ? el(
          "details",
          { class: "whole" },
          el("summary", {}, "The exact call"),
          mono(exact(JSON.stringify(question.input, null, 2))),
        )
      : null,
    el(
      "p",
      { class: "why" },
      exact(why),
      rule ? el("span", { class: "faint" }, ` (rule ${exact(rule)})`) : null,
    ),
  ];
}

/**
 * @param {import("./api.js").Inquiry} asked
 * @param {number} number
 */
function inquiry(asked, number) {
  const kind = asked.many ? "checkbox" : "radio";
  const options = (asked.options ?? []).map((each) =>
    el(
      "label",
      { class: "option" },
      el("input", { type: kind, name: `choice-${number}`, value: each.label }),
      el(
        "span",
        {},
        el("b", {}, each.label),
        each.description ? el("span", { class: "faint" }, ` ${each.description}`) : null,
      ),
    ),
  );
  return el(
    "fieldset",
    { data: { inquiry: String(number) } },
    el("legend", {}, asked.question),
    options,
    el("input", {
      type: "text",
      name: `words-${number}`,
      "aria-label": "Your answer",
      placeholder: options.length ? "or type your answer" : "your answer",
    }),
  );
}

/** @param {Question} question */
function choices(question) {
  const isInquiry = question.inquiries.length > 0;
  const parts = [];
  if (question.reaches.length > 1 && !isInquiry) {
    const options = question.reaches.map((each) => el("option", { value: each }, REACHES[each] ?? each));
    parts.push(
      el("label", { class: "reach" }, "Allow ", el("select", { name: "reach" }, options)),
      el("p", { class: "faint rules" }, `For longer than once, this will allow ${exact(question.rules.join(", "))}`),
    );
  }
  if (question.network)
    parts.push(
      question.input.network
        ? el("p", { class: "faint" }, "It asks for network access. Allowing it gives that, for this command only.")
        : el(
            "label",
            { class: "option" },
            el("input", { type: "checkbox", name: "network" }),
            el("span", {}, "Allow this command to use the network"),
          ),
    );
  const why = el("input", {
    type: "text",
    name: "why",
    maxlength: 200,
    "aria-label": "What to do instead, if you decline (the agent reads it)",
    placeholder: "if you decline: what to do instead",
  });
  const buttons = el(
    "div",
    { class: "buttons" },
    el("button", { type: "submit", class: "primary" }, isInquiry ? "Answer" : "Allow"),
    button("Decline", () => {}, { class: "danger", data: { deny: "" } }),
    why,
  );
  return [el("div", { class: "answers" }, parts, buttons)];
}

/**
 * @param {HTMLFormElement} form
 * @param {number} number
 */
function wordsOf(form, number) {
  const given = new FormData(form);
  const typed = String(given.get(`words-${number}`) ?? "").trim();
  return [...given.getAll(`choice-${number}`), typed].filter(Boolean).join(", ");
}

/**
 * @param {Question} question
 * @param {HTMLFormElement} form
 * @param {boolean} allow
 * @param {HTMLElement} trouble
 */
async function answer(question, form, allow, trouble) {
  const given = new FormData(form);
  const reach = given.get("reach");
  /** @type {Answer} */
  const said = { allow };
  if (!allow) said.why = String(given.get("why") ?? "").trim();
  if (allow && reach !== null) said.reach = String(reach);
  if (allow && given.has("network")) said.network = true;
  if (allow && question.inquiries.length)
    said.words = question.inquiries.map((_, number) => wordsOf(form, number));
  if (said.words?.some((each) => !each)) {
    trouble.hidden = false;
    trouble.textContent = "Answer every question.";
    return;
  }
  const buttons = form.querySelectorAll("button");
  for (const each of buttons) each.disabled = true;
  form.dataset.answered = "yes";
  try {
    await questions.answer(question, said);
    notify(`${allow ? "Answered" : "Declined"}: ${tasks.byId.get(question.task)?.agent ?? question.agent}`);
  } catch (error) {
    trouble.hidden = false;
    trouble.textContent = reason(error);
    delete form.dataset.answered;
    for (const each of buttons) each.disabled = false;
  }
}

// The cards of pending questions in one place, and the way from one to the next.
export class QuestionCards {
  /** @type {Map<string, HTMLElement>} */
  #cards = new Map();
  #place;
  #after;

  /**
   * @param {HTMLElement} place
   * @param {() => void} after Moves the focus once the last one is answered.
   */
  constructor(place, after) {
    this.#place = place;
    this.#after = after;
  }

  /** @param {Question[]} open */
  show(open) {
    const keys = new Set(open.map((each) => each.key));
    let left = false;
    for (const [key, card] of this.#cards) {
      if (keys.has(key)) continue;
      left ||= card.contains(document.activeElement) || card.dataset.answered === "yes";
      card.remove();
      this.#cards.delete(key);
    }
    for (const each of open) {
      if (this.#cards.has(each.key)) continue;
      const card = questionCard(each);
      this.#cards.set(each.key, card);
      this.#place.append(card);
    }
    if (left && !this.focus()) this.#after();
  }

  // To the first card itself, not to one of its buttons: a key that was meant for something else approves nothing.
  focus() {
    const [card] = this.#cards.values();
    card?.focus();
    return Boolean(card);
  }
}

// <gen-questions>: all pending questions, the oldest first.
export class QuestionsView extends HTMLElement {
  #list = el("div", { class: "cards" });
  #title = el("h1", { tabindex: "-1" }, "Questions");
  #cards = new QuestionCards(this.#list, () => this.#title.focus());
  #empty = el(
    "div",
    { class: "empty" },
    el("h2", {}, "No pending questions"),
    el(
      "p",
      {},
      "An agent that needs your approval or an answer waits here. After one hour without an answer the call is declined.",
    ),
  );
  #later = framed(() => this.#draw());

  connectedCallback() {
    this.className = "asking";
    if (!this.firstChild)
      this.append(el("header", { class: "viewhead" }, this.#title), this.#empty, this.#list);
    questions.changed.subscribe(this.#later);
    this.#draw();
  }

  disconnectedCallback() {
    questions.changed.unsubscribe(this.#later);
  }

  shows() {
    return true;
  }

  focusQuestion() {
    if (!this.#cards.focus()) this.#title.focus();
  }

  #draw() {
    this.#cards.show(questions.open);
    this.#empty.hidden = questions.open.length > 0;
  }
}

customElements.define("gen-questions", QuestionsView);
