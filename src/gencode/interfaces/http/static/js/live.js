// The one event stream of this page. It comes back by the id of the last fact it saw, and says how it is.

import { get, me } from "./api.js";
import { framed } from "./dom.js";

const FACTS = [
  "SubSessionCreated",
  "SubSessionStatusChanged",
  "SubSessionProgress",
  "SubSessionCompleted",
  "SubSessionFailed",
  "SubSessionCancelled",
  "MessageAdded",
  "CallDecided",
  "TaskQueued",
  "TaskBackgrounded",
  "TaskStalled",
  "TaskForked",
  "TaskImported",
  "ChangesMoved",
  "ObsoleteFact",
  "BudgetSet",
  "TranscriptCompacted",
  "QueueMoved",
];
const NOTICES = ["StreamReset", "QuestionsChanged", "ChatMessage"];
const HIDDEN_MS = 60_000;
const LONGEST_MS = 15_000;

class Live extends EventTarget {
  state = "begins";
  #source = null;
  #cursor = "";
  #waiting = [];
  #pause = 1000;
  #hidden = 0;
  #drain = framed(() => {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.dispatchEvent(new CustomEvent("facts", { detail: waiting }));
  });

  open(cursor) {
    this.#cursor = cursor;
    this.#connect();
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  // Goes on at another place, after everything was read anew.
  moveTo(cursor) {
    this.#cursor = cursor;
    this.#connect();
  }

  #connect() {
    this.#source?.close();
    const source = new EventSource(`/api/stream?brief=true&after=${encodeURIComponent(this.#cursor)}`);
    this.#source = source;
    for (const name of FACTS) source.addEventListener(name, (event) => this.#take(event));
    for (const name of NOTICES) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) this.#cursor = event.lastEventId;
        this.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) }));
      });
    }
    source.addEventListener("StreamOpened", (event) => {
      this.#cursor = event.lastEventId || this.#cursor;
    });
    source.addEventListener("open", () => {
      this.#pause = 1000;
      this.#is("live");
    });
    source.addEventListener("error", () => this.#broke(source));
  }

  #take(event) {
    if (event.lastEventId) this.#cursor = event.lastEventId;
    this.#waiting.push(JSON.parse(event.data));
    this.#drain();
  }

  // The browser comes back by itself where the line broke, not where it was refused.
  async #broke(source) {
    if (source !== this.#source) return;
    this.#is("lost");
    if (source.readyState !== EventSource.CLOSED) return;
    const refused = await get("/api/health").then(
      () => null,
      (error) => error,
    );
    if (refused?.status === 401) {
      this.#is("refused");
      return;
    }
    setTimeout(() => {
      if (source === this.#source) this.#connect();
    }, this.#pause);
    this.#pause = Math.min(2 * this.#pause, LONGEST_MS);
  }

  #is(state) {
    if (this.state === state) return;
    const before = this.state;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, before } }));
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
    this.#is("rests");
    while (document.hidden && this.#source === null) {
      const health = await get("/api/health").catch(() => null);
      if (health && health.questions !== me.health.questions) {
        me.health.questions = health.questions;
        this.dispatchEvent(new CustomEvent("QuestionsChanged", { detail: {} }));
      }
      await new Promise((done) => {
        setTimeout(done, HIDDEN_MS / 2);
      });
    }
  }
}

export const live = new Live();
