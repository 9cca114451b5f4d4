// The questions that wait for a person.

import { get, post } from "./api.js";

class Questions extends EventTarget {
  open = [];
  #reading = null;
  #again = false;

  async load() {
    if (this.#reading) {
      this.#again = true;
      return this.#reading;
    }
    this.#reading = this.#read();
    try {
      await this.#reading;
    } finally {
      this.#reading = null;
    }
    if (this.#again) {
      this.#again = false;
      return this.load();
    }
    return undefined;
  }

  async #read() {
    const before = new Set(this.open.map((each) => each.number));
    this.open = (await get("/api/questions")).questions;
    const fresh = this.open.filter((each) => !before.has(each.number));
    this.dispatchEvent(new CustomEvent("change", { detail: fresh }));
  }

  of(task) {
    return this.open.filter((each) => each.task === task);
  }

  async answer(number, said) {
    await post(`/api/questions/${number}`, said);
    this.open = this.open.filter((each) => each.number !== number);
    this.dispatchEvent(new CustomEvent("change", { detail: [] }));
  }
}

export const questions = new Questions();
