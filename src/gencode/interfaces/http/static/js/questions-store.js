// The questions that wait for a person, as the server that runs now tells them.

import { get, post, Refusal } from "./api.js";

const AGAIN_MS = 1000;
const MOST = 500;
const GONE = "This question does not wait any more. Look at those that do.";

class Questions extends EventTarget {
  open = [];
  // When each question was asked, and until when it was seen to wait: what a person kept waiting.
  waits = new Map();
  #reading = null;
  #again = false;
  #era = 0;

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

  // Another server may be there now, with other questions: nothing that was known counts until it is read.
  forget() {
    this.#era += 1;
    if (this.open.length) this.#are([]);
  }

  // Reads them until that works; what is known by then was told after the line was there again.
  async relearn() {
    this.forget();
    const era = this.#era;
    while (era === this.#era) {
      const read = await this.load().then(
        () => true,
        (error) => error.status === 401 || error.status === 403,
      );
      if (read) return;
      await new Promise((done) => {
        setTimeout(done, AGAIN_MS);
      });
    }
  }

  async #read() {
    const era = this.#era;
    const told = (await get("/api/questions")).questions.map(kept);
    if (era === this.#era) this.#are(told);
    else this.#again = true;
  }

  #are(open) {
    const before = new Set(this.open.map((each) => each.key));
    this.open = open;
    this.#note();
    const fresh = open.filter((each) => !before.has(each.key));
    this.dispatchEvent(new CustomEvent("change", { detail: fresh }));
  }

  #note() {
    const now = Date.now();
    const open = new Set(this.open.map((each) => each.key));
    for (const [key, wait] of this.waits) if (!open.has(key)) wait.to ??= now;
    for (const { key, task, since } of this.open) {
      const known = this.waits.get(key);
      if (known) known.to = null;
      else this.waits.set(key, { task, from: Math.min(Date.parse(since) || now, now), to: null });
    }
    for (const key of this.waits.keys()) {
      if (this.waits.size <= MOST) break;
      if (!open.has(key)) this.waits.delete(key);
    }
  }

  of(task) {
    return this.open.filter((each) => each.task === task);
  }

  // Only what is in the latest list is answered, and only as it stood in the card.
  async answer(asked, said) {
    if (!this.open.some((each) => each.key === asked.key)) throw new Refusal(0, GONE);
    try {
      await post(`/api/questions/${encodeURIComponent(asked.id)}`, said);
    } catch (error) {
      if (error.status === 404) this.load().catch(() => {});
      throw error;
    }
    this.#are(this.open.filter((each) => each.key !== asked.key));
  }
}

// A question is known by all that it says: an id alone may stand for another one after a restart.
function kept(told) {
  return {
    ...told,
    id: String(told.id ?? told.number),
    key: JSON.stringify(told),
  };
}

export const questions = new Questions();
