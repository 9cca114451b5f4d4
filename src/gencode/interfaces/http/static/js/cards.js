// Cards of waiting questions: one for each, gone with it, and the way from one to the next.

import { question } from "./question.js";

export class Cards {
  #cards = new Map();
  #place;
  #after;

  // `after` is where somebody goes on who has answered the last one.
  constructor(place, after) {
    this.#place = place;
    this.#after = after;
  }

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
      const card = question(each);
      this.#cards.set(each.key, card);
      this.#place.append(card);
    }
    if (left && !this.focus()) this.#after();
  }

  clear() {
    for (const card of this.#cards.values()) card.remove();
    this.#cards.clear();
  }

  // To the first card itself, not to one of its buttons: a key that was meant for something else says no yes.
  focus() {
    const [card] = this.#cards.values();
    card?.focus();
    return Boolean(card);
  }
}
