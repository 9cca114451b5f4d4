// Signals: whoever subscribes is called with what is sent, until it unsubscribes.

/** @template T */
export class Signal {
  /** @type {Set<(value: T) => void>} */
  #calls = new Set();

  /** @param {(value: T) => void} call */
  subscribe(call) {
    this.#calls.add(call);
  }

  /** @param {(value: T) => void} call */
  unsubscribe(call) {
    this.#calls.delete(call);
  }

  /** @param {T} value */
  send(value) {
    for (const call of [...this.#calls]) call(value);
  }
}
