// The event stream of this page. It reconnects by the id of the last event it saw, and says how it is.

import { get, me, Refusal } from "./api.js";
import { framed } from "./dom.js";
import { Signal } from "./signal.js";

/** @typedef {import("./api.js").Fact} Fact */
/** @typedef {import("./api.js").TaskState} TaskState */
/** @typedef {"connecting" | "live" | "lost" | "refused" | "paused"} Connection */
/** @typedef {{ type: "StreamReset" | "QuestionsChanged" } | { type: "ChatMessage", text: string }} Notice */

// Of the facts only those whose text is still arriving, or has just arrived; states tell of the others.
const FACTS = ["SessionProgress", "SubSessionProgress", "MessageAdded"];
const NOTICES = ["StreamReset", "QuestionsChanged", "ChatMessage"];
const HIDDEN_MS = 60_000;
const LONGEST_MS = 15_000;

class EventStream {
  /** @type {Connection} */
  connection = "connecting";
  /** @type {Signal<Fact[]>} */
  facts = new Signal();
  /** @type {Signal<TaskState[]>} */
  states = new Signal();
  /** @type {Signal<Notice>} */
  notices = new Signal();
  /** @type {Signal<Connection>} */
  connected = new Signal();
  /** @type {Signal<void>} */
  caughtUp = new Signal();
  /** @type {EventSource | null} */
  #source = null;
  #cursor = "";
  /** @type {Fact[]} */
  #facts = [];
  /** @type {TaskState[]} */
  #states = [];
  #pause = 1000;
  #hidden = 0;
  #drain = framed(() => {
    const facts = this.#facts;
    const states = this.#states;
    this.#facts = [];
    this.#states = [];
    if (states.length) this.states.send(states);
    if (facts.length) this.facts.send(facts);
  });

  /** @param {string} cursor */
  open(cursor) {
    this.#cursor = cursor;
    this.#connect();
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  /**
   * Goes on at another place, after everything was read anew.
   * @param {string} cursor
   */
  moveTo(cursor) {
    this.#cursor = cursor;
    this.#connect();
  }

  #connect() {
    this.#source?.close();
    const after = encodeURIComponent(this.#cursor);
    const source = new EventSource(`/api/stream?brief=true&states=true&after=${after}`);
    this.#source = source;
    for (const name of FACTS) source.addEventListener(name, (event) => this.#fact(event));
    source.addEventListener("TaskState", (event) => {
      this.#states.push(JSON.parse(event.data).state);
      this.#drain();
    });
    for (const name of NOTICES) {
      source.addEventListener(name, (event) => {
        this.#moved(event);
        this.notices.send(JSON.parse(event.data));
      });
    }
    source.addEventListener("StreamOpened", (event) => this.#moved(event));
    source.addEventListener("open", () => {
      this.#pause = 1000;
      this.#is("live");
    });
    source.addEventListener("error", () => this.#broke(source));
  }

  /** @param {MessageEvent} event */
  #moved(event) {
    this.#cursor = event.lastEventId || this.#cursor;
  }

  /** @param {MessageEvent} event */
  #fact(event) {
    this.#moved(event);
    this.#facts.push(JSON.parse(event.data));
    this.#drain();
  }

  /**
   * The browser reconnects by itself where the connection broke, not where it was refused.
   * @param {EventSource} source
   */
  async #broke(source) {
    if (source !== this.#source) return;
    this.#is("lost");
    if (source.readyState !== EventSource.CLOSED) return;
    const trouble = await get("/api/health").then(
      () => null,
      (error) => error,
    );
    if (trouble instanceof Refusal && trouble.status === 401) {
      this.#is("refused");
      return;
    }
    setTimeout(() => {
      if (source === this.#source) this.#connect();
    }, this.#pause);
    this.#pause = Math.min(2 * this.#pause, LONGEST_MS);
  }

  /** @param {Connection} connection */
  #is(connection) {
    if (this.connection === connection) return;
    const before = this.connection;
    this.connection = connection;
    this.connected.send(connection);
    if (connection === "live" && before !== "connecting") this.caughtUp.send();
  }

  // A browser has few connections to one server: a page that nobody looks at gives its own away for a while.
  #seen() {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => this.#rest(), HIDDEN_MS);
    } else if (this.#source === null) {
      this.#connect();
    }
  }

  async #rest() {
    this.#source?.close();
    this.#source = null;
    this.#is("paused");
    while (document.hidden && this.#source === null) {
      const health = await get("/api/health").catch(() => null);
      if (health && health.questions !== me.health.questions) {
        me.health.questions = health.questions;
        this.notices.send({ type: "QuestionsChanged" });
      }
      await new Promise((done) => {
        setTimeout(done, HIDDEN_MS / 2);
      });
    }
  }
}

export const stream = new EventStream();
