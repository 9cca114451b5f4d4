// The questions that wait for a person, as the server that runs now tells them.

import { get, post, Refusal } from "./api.js";
import { Signal } from "./signal.js";

/** @typedef {import("./api.js").Question & { key: string }} Question */

const AGAIN_MS = 1000;
const GONE = "This question is no longer pending. See the list of pending questions.";

class QuestionStore {
  /** @type {Question[]} */
  open = [];
  /**
   * Sent with the questions that are new.
   * @type {Signal<Question[]>}
   */
  changed = new Signal();
  /** @type {Promise<void> | null} */
  #reading = null;
  #again = false;
  #era = 0;

  /** @returns {Promise<void>} */
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

  // Another server may be there now, with other questions: what was known is void until it is read again.
  forget() {
    this.#era += 1;
    if (this.open.length) this.#are([]);
  }

  // Reads them until that works, after the connection is there again.
  async relearn() {
    this.forget();
    const era = this.#era;
    while (era === this.#era) {
      const read = await this.load().then(
        () => true,
        (error) => error instanceof Refusal && (error.status === 401 || error.status === 403),
      );
      if (read) return;
      await new Promise((done) => {
        setTimeout(done, AGAIN_MS);
      });
    }
  }

  async #read() {
    const era = this.#era;
    const told = (await get("/api/questions")).questions.map(keyed);
    if (era === this.#era) this.#are(told);
    else this.#again = true;
  }

  /** @param {Question[]} open */
  #are(open) {
    const before = new Set(this.open.map((each) => each.key));
    this.open = open;
    this.changed.send(open.filter((each) => !before.has(each.key)));
  }

  /** @param {string} task */
  of(task) {
    return this.open.filter((each) => each.task === task);
  }

  /**
   * Only what is in the latest list is answered, and only as it stood in the card.
   * @param {Question} question
   * @param {import("./api.js").Answer} answer
   */
  async answer(question, answer) {
    if (!this.open.some((each) => each.key === question.key)) throw new Refusal(0, GONE);
    try {
      await post(`/api/questions/${question.number}`, answer);
    } catch (error) {
      if (error instanceof Refusal && error.status === 404) this.load().catch(() => {});
      throw error;
    }
    this.#are(this.open.filter((each) => each.key !== question.key));
  }
}

/**
 * A question is known by all that it says: a number alone could stand for another one of another server.
 * @param {import("./api.js").Question} told
 * @returns {Question}
 */
function keyed(told) {
  return { ...told, key: JSON.stringify(told) };
}

export const questions = new QuestionStore();
