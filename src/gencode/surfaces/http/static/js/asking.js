// <gen-questions>: everything that waits for a person, the oldest first.

import { el, framed } from "./dom.js";
import { question } from "./question.js";
import { questions } from "./questions-store.js";

class Asking extends HTMLElement {
  #cards = new Map();
  #list = el("div", { class: "cards" });
  #empty = el(
    "div",
    { class: "empty" },
    el("h2", {}, "Nobody asks anything"),
    el(
      "p",
      {},
      "When an agent wants to do something that is not allowed yet, or to know something, it is asked here, and waits. What was not answered after an hour is a no.",
    ),
  );
  #later = framed(() => this.#draw());

  connectedCallback() {
    this.className = "asking";
    if (!this.firstChild)
      this.append(el("header", { class: "viewhead" }, el("h1", {}, "Questions")), this.#empty, this.#list);
    questions.addEventListener("change", this.#later);
    this.#later();
  }

  disconnectedCallback() {
    questions.removeEventListener("change", this.#later);
  }

  #draw() {
    const open = new Set(questions.open.map((each) => each.number));
    for (const [number, card] of this.#cards) {
      if (open.has(number)) continue;
      card.remove();
      this.#cards.delete(number);
    }
    for (const each of questions.open) {
      if (this.#cards.has(each.number)) continue;
      const card = question(each);
      this.#cards.set(each.number, card);
      this.#list.append(card);
    }
    this.#empty.hidden = open.size > 0;
  }
}

customElements.define("gen-questions", Asking);
