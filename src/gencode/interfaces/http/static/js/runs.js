// When a task worked: its facts tell where each of its runs began and ended, and what it waited for in them.

const ENDS = new Set(["SubSessionCompleted", "SubSessionFailed", "SubSessionCancelled"]);

// Pairs of a beginning and an end; the end of a run that goes on is null.
export function runsOf(events) {
  const runs = [];
  for (const { type, at } of events) {
    const last = runs.at(-1);
    if (type === "SubSessionStatusChanged") runs.push([Date.parse(at), null]);
    else if (ENDS.has(type) && last) last[1] ??= Date.parse(at);
  }
  return runs;
}

export function lengthOf(runs) {
  return runs.reduce((sum, [from, to]) => sum + (to === null ? 0 : to - from), 0);
}

// A tool that is nothing but a question to a person.
const ASKS = "AskUserQuestion";

// What a task waited for, told fact by fact: `asks` for a person, `rests` for the agents in its background,
// with nothing left to do itself. Pairs as above; of a question that still waits the open ones tell.
export class Waits {
  asks = [];
  rests = [];
  #asked = new Map();

  constructor(events) {
    for (const each of events) this.hear(each);
  }

  hear({ type, at, call, tool, decision, message }) {
    const now = Date.parse(at);
    if (type === "CallDecided") {
      this.#answered(call, now);
      if (decision.action === "ask" || (decision.action === "allow" && tool === ASKS))
        this.#asked.set(call, now);
      return;
    }
    const ended = ENDS.has(type);
    if (type !== "MessageAdded" && !ended) return;
    const rest = this.rests.at(-1);
    if (rest) rest[1] ??= now;
    if (ended || message.role === "tool")
      for (const each of [...this.#asked.keys()]) this.#answered(each, now);
    if (message?.role === "assistant" && !message.calls?.length) this.rests.push([now, null]);
  }

  #answered(call, now) {
    if (this.#asked.has(call)) this.asks.push([this.#asked.get(call), now]);
    this.#asked.delete(call);
  }
}
