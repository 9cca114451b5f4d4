// <gen-questions>: everything that waits for a person, the oldest first.

import { Cards } from "./cards.js";
import { el, framed } from "./dom.js";
import { questions } from "./questions-store.js";

class Asking extends HTMLElement {
  #list = el("div", { class: "cards" });
  #title = el("h1", { tabindex: "-1" }, "Questions");
  #cards = new Cards(this.#list, () => this.#title.focus());
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
      this.append(el("header", { class: "viewhead" }, this.#title), this.#empty, this.#list);
    questions.addEventListener("change", this.#later);
    this.#draw();
  }

  disconnectedCallback() {
    questions.removeEventListener("change", this.#later);
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

customElements.define("gen-questions", Asking);
