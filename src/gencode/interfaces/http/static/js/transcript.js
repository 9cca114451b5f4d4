// <gen-transcript>: everything one agent read, said and did, as it grows.

import { get, may, task as at } from "./api.js";
import { button, el, framed, icon, ICONS } from "./dom.js";
import { stream } from "./event-stream.js";
import { ACTIVE, plural } from "./format.js";
import { reply } from "./markdown.js";
import { tasks } from "./task-store.js";
import {
  assistantMessage,
  CallEntry,
  EndEntry,
  branchButton,
  marker,
  pendingMessage,
  taskLink,
  userMessage,
} from "./transcript-entries.js";

/** @typedef {import("./api.js").Fact} Fact */
/** @typedef {import("./api.js").Message} Message */
/** @typedef {import("./task-store.js").Task} Task */
/** @typedef {Fact & { seq: number }} Durable */

const PAGE = 150;
const OUTPUT_LINES = 5;
const MOST = 600;
const NEAR = 80;
const LAST = 2 ** 53;
const FIRST = 4;

export class Transcript extends HTMLElement {
  #branch;
  #id = "";
  #first = 0;
  #last = 0;
  #prompt = "";
  /** @type {Map<string, CallEntry>} */
  #calls = new Map();
  /**
   * Results and decisions whose call is not in the page yet.
   * @type {[call: string, add: (entry: CallEntry) => void][]}
   */
  #loose = [];
  /** @type {EndEntry[]} */
  #ends = [];
  #opened = false;
  /** @type {Promise<{ events: Durable[], last: number }> | null} */
  #opening = null;
  #reading = false;
  #again = false;
  #spoken = "";
  /** The last lines that a running command has written. */
  #output = "";
  #above = button("Show earlier", () => this.#earlier(), { class: "quiet earlier", hidden: true });
  #list = el("div", { class: "facts", role: "log", "aria-label": "Transcript", "aria-live": "off" });
  #speech = el("article", { class: "said assistant speaking", hidden: true });
  #doing = el("p", { class: "doing", role: "status", hidden: true });
  #letters = el("div", { class: "letters", hidden: true });
  #jump = button("New messages below", () => this.#toEnd(), { class: "jump", hidden: true });
  #speak = framed(() => this.#drawSpeech());
  #follows = true;
  #size = new ResizeObserver(() => {
    if (this.#follows) this.#toEnd();
  });

  /** @param {(seq: number) => void} branch Goes on from a message in another way. */
  constructor(branch) {
    super();
    this.#branch = branch;
  }

  connectedCallback() {
    stream.facts.subscribe(this.#heard);
    tasks.changed.subscribe(this.#changed);
    if (this.firstChild) return;
    this.tabIndex = 0;
    this.setAttribute("aria-label", "Transcript");
    this.#jump.prepend(icon(ICONS.down));
    this.append(this.#above, this.#list, this.#speech, this.#doing, this.#letters, this.#jump);
    this.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#list.addEventListener("click", () => this.#stay());
    for (const each of [this, this.#list, this.#speech]) this.#size.observe(each);
  }

  disconnectedCallback() {
    stream.facts.unsubscribe(this.#heard);
    tasks.changed.unsubscribe(this.#changed);
  }

  /** @param {string} id */
  async open(id) {
    this.#id = id;
    this.#opened = false;
    this.#opening = get(at(id, "/events"), { before: LAST, limit: PAGE }).finally(() => {
      this.#opening = null;
    });
    const page = await this.#opening;
    if (this.#id !== id || !page) return;
    this.#first = page.events[0]?.seq ?? 0;
    this.#list.replaceChildren();
    this.#calls.clear();
    this.#loose = [];
    this.#ends = [];
    this.#add(page.events);
    this.#above.hidden = this.#first <= 1;
    this.#drawn();
    this.#toEnd();
    this.#opened = true;
    if (page.last > this.#last || this.#again) this.refresh();
  }

  // What belongs to the facts in the page and is told elsewhere.
  #drawn() {
    const task = tasks.byId.get(this.#id);
    this.toggleAttribute("data-conversation", Boolean(task?.conversation));
    this.#followAgents();
    const read = (/** @type {number} */ seq) => get(at(this.#id), { at: seq });
    for (const each of this.#ends) each.complete(read);
    this.#drawLetters(task);
    this.#drawStep(task);
  }

  /**
   * Sent, and not read yet: the prompt of a queued task, and messages to it.
   * @param {Task | undefined} task
   */
  #drawLetters(task) {
    const letters = tasks.letters.get(this.#id) ?? [];
    const isNew = task?.status === "pending" && !task.turns && !this.#list.querySelector(".said");
    const reads = !task || ACTIVE.has(task.status) || task.conversation;
    const how = reads ? "waiting to be read" : "not read; the agent reads this when it is resumed";
    const prompt = isNew ? this.#prompt : "";
    const shape = JSON.stringify([prompt, how, letters]);
    if (this.#letters.dataset.shape === shape) return;
    this.#letters.dataset.shape = shape;
    this.#letters.replaceChildren(
      ...(prompt ? [pendingMessage("Prompt", "queued", prompt)] : []),
      ...letters.map((each) => pendingMessage("You", how, each.text)),
    );
    this.#letters.hidden = !this.#letters.firstChild;
    if (this.#follows) this.#toEnd();
  }

  /**
   * What it does at this moment, where that is not the text it is writing.
   * @param {Task | undefined} task
   */
  #drawStep(task) {
    const step = task?.status === "running" && !this.#spoken ? task.step : "";
    this.#doing.replaceChildren(task?.idle && step ? "Waiting for background tasks" : step);
    const lines = this.#output.trimEnd().split("\n").slice(-OUTPUT_LINES).join("\n");
    if (lines) this.#doing.append(el("span", { class: "live" }, lines));
    this.#doing.hidden = !step;
  }

  async #earlier() {
    const page = await get(at(this.#id, "/events"), { before: this.#first, limit: PAGE });
    if (!page.events.length) return;
    const height = this.scrollHeight;
    const later = [...this.#list.children];
    this.#list.replaceChildren();
    const known = this.#calls;
    const loose = this.#loose;
    this.#calls = new Map();
    this.#loose = [];
    this.#add(page.events);
    for (const [call, add] of loose) this.#attach(call, add);
    this.#calls = new Map([...this.#calls, ...known]);
    this.#list.append(...later);
    this.#drawn();
    this.#first = page.events[0].seq;
    this.#above.hidden = this.#first <= 1;
    this.scrollBy({ top: this.scrollHeight - height, behavior: "instant" });
  }

  // The stream hands on what is just being said; messages say that it is complete.
  #heard = (/** @type {Fact[]} */ facts) => {
    for (const fact of facts) {
      if (fact.task !== this.#id) continue;
      if (fact.type === "MessageAdded") {
        this.#output = "";
        if (fact.message.role === "assistant") this.#spoken = "";
        if ((fact.seq ?? 0) > this.#last) this.refresh();
      } else if (fact.partType === "text") this.#spoken += fact.content;
      else if (fact.partType === "restart") this.#spoken = "";
      else if (fact.partType === "output") this.#output = fact.content;
    }
    this.#speak();
  };

  async refresh() {
    if (!this.#opened && !this.#opening) {
      await this.open(this.#id).catch(() => {});
      return;
    }
    if (this.#reading || !this.#opened) {
      this.#again = true;
      return;
    }
    this.#reading = true;
    try {
      do {
        this.#again = false;
        const id = this.#id;
        /** @type {{ events: Durable[], last: number }} */
        const page = await get(at(id, "/events"), { after: this.#last, limit: PAGE }).catch(() => ({
          events: [],
          last: 0,
        }));
        if (id !== this.#id || !this.#opened) return;
        this.#add(page.events.filter((each) => each.seq > this.#last));
        this.#drawn();
        this.#speak();
        this.#trim();
        if (this.#follows) this.#toEnd();
        else if (page.events.length) this.#jump.hidden = false;
        this.#again ||= page.events.length > 0 && page.last > this.#last;
      } while (this.#again);
    } finally {
      this.#reading = false;
    }
  }

  #drawSpeech() {
    const task = tasks.byId.get(this.#id);
    this.#speech.hidden = !this.#spoken;
    if (this.#spoken)
      this.#speech.replaceChildren(el("div", { class: "who" }, task?.agent ?? ""), reply(this.#spoken, task?.model));
    this.#drawStep(task);
    if (this.#follows) this.#toEnd();
  }

  #changed = (/** @type {Set<string>} */ changed) => {
    this.#followAgents();
    if (!changed.has(this.#id)) return;
    const task = tasks.byId.get(this.#id);
    if (task && task.seq > this.#last && this.#opened) this.refresh();
    if (task && task.status !== "running") {
      this.#spoken = "";
      this.#speech.hidden = true;
    }
    this.#drawn();
  };

  // The agents that calls of this one have started or resumed.
  #followAgents() {
    const started = new Map(tasks.below(this.#id).map((each) => [each.call, each]));
    for (const [id, entry] of this.#calls) {
      const { result, call } = entry;
      const known = result?.trace?.children?.[0] ?? call.input?.resume;
      const child = tasks.byId.get(known ?? "") ?? started.get(id);
      if (child) entry.follow(child);
    }
  }

  /** @param {Durable[]} events */
  #add(events) {
    for (const event of events) {
      const made = this.#draw(event);
      if (made) {
        made.dataset.seq = String(event.seq);
        this.#list.append(made);
      }
      this.#last = Math.max(this.#last, event.seq);
    }
  }

  /** @param {Durable} event */
  #draw(event) {
    switch (event.type) {
      case "SessionCreated":
      case "SubSessionCreated":
        this.#prompt = event.prompt;
        return event.parentSessionId
          ? marker(event.at, "Started by ", taskLink(event.parentSessionId))
          : marker(event.at, "Started by a person or a program");
      case "SessionStatusChanged":
      case "SubSessionStatusChanged":
        return marker(
          event.at,
          event.oldStatus === "Pending" ? "Started" : "Resumed",
          event.model ? ` with ${event.model}` : "",
        );
      case "MessageAdded":
        return this.#message(event.message, event.at, event.seq);
      case "CallDecided":
        this.#attach(event.call, (entry) => entry.decide(event.decision));
        return null;
      case "TaskForked":
        return this.#forked(event);
      case "TranscriptCompacted":
        return marker(
          event.at,
          `Context compacted: a summary replaces the first ${plural(event.upto, "message")}${event.why ? ` (${event.why})` : ""}`,
        );
      case "SessionRewound":
        return this.#rewound(event);
      case "TaskQueued":
        return marker(event.at, "Queued");
      case "TaskBackgrounded":
        return marker(event.at, "Moved to the background");
      case "TaskStalled":
        return marker(event.at, `No response for ${Math.round(event.seconds)} s`);
      case "TaskImported":
        return marker(event.at, "Imported from a file");
      case "SessionCompleted":
      case "SessionFailed":
      case "SessionCancelled":
      case "SubSessionCompleted":
      case "SubSessionFailed":
      case "SubSessionCancelled":
        return this.#ended(event);
      default:
        return null;
    }
  }

  /** @param {Durable} event */
  #ended(event) {
    const end = new EndEntry(event);
    this.#ends.push(end);
    return end.element;
  }

  /**
   * @param {Message} message
   * @param {string} time
   * @param {number} seq
   */
  #message(message, time, seq) {
    if (message.role === "tool") {
      for (const result of message.results ?? []) this.#attach(result.call, (entry) => entry.finish(result));
      return null;
    }
    const made =
      message.role === "user"
        ? userMessage(message, time, this.#sender(time ? seq : 0))
        : assistantMessage(message, time, tasks.byId.get(this.#id)?.agent ?? "agent", this.#entries(message));
    if (message.role === "user") tasks.read(this.#id, message.text, seq);
    const conversation = tasks.byId.get(this.#id)?.conversation;
    const isPrompt = message.role === "user" && (message.sender ?? "user") === "user";
    if (may("act") && (!conversation || isPrompt))
      made.append(branchButton(conversation ? "Rewind" : "Fork", () => this.#branch(seq)));
    return made;
  }

  /** @param {Message} message */
  #entries(message) {
    const entries = (message.calls ?? []).map((each) => new CallEntry(each));
    for (const entry of entries) this.#calls.set(entry.call.id, entry);
    return entries;
  }

  /**
   * The first message to an agent is that of its parent.
   * @param {number} seq
   */
  #sender(seq) {
    const task = tasks.byId.get(this.#id);
    const parent = task && seq && seq <= FIRST ? tasks.parentOf(task) : undefined;
    return parent?.agent ?? "";
  }

  /**
   * @param {string} call
   * @param {(entry: CallEntry) => void} add
   */
  #attach(call, add) {
    const entry = this.#calls.get(call);
    if (entry) add(entry);
    else this.#loose.push([call, add]);
  }

  /** @param {Durable} event */
  #forked(event) {
    /** @type {Message[]} */
    const messages = event.messages;
    return el(
      "details",
      { class: "earlierlife" },
      el(
        "summary",
        {},
        "Forked from ",
        taskLink(event.source),
        ` after event ${event.upto}: ${plural(messages.length, "message")}`,
      ),
      messages.map((each) => this.#message(each, "", event.seq)),
    );
  }

  // What was taken back stays in the journal; here it is folded away.
  /** @param {Durable} event */
  #rewound(event) {
    const files = event.files?.length ?? 0;
    const what = [event.conversation ? "the conversation" : "", files ? plural(files, "file") : ""];
    const made = marker(event.at, `Rewound ${what.filter(Boolean).join(" and ")} to an earlier prompt`);
    if (!event.conversation) return made;
    const undone = this.#list.querySelector(`details[data-rewind="${event.to}"]`);
    if (undone) {
      undone.querySelector("summary")?.remove();
      undone.replaceWith(...undone.children);
    }
    const behind = [...this.#list.children].filter(
      (each) => each instanceof HTMLElement && Number(each.dataset.seq) >= event.to,
    );
    if (!behind.length) return made;
    const gone = el("details", { class: "earlierlife" }, el("summary", {}, "What was taken back"), ...behind);
    gone.dataset.seq = String(event.to);
    gone.dataset.rewind = String(event.seq);
    this.#list.append(gone);
    return made;
  }

  // What is far above leaves the page; "Show earlier" reads it again.
  #trim() {
    const over = this.#list.children.length - MOST;
    if (over < PAGE || !this.#follows) return;
    this.open(this.#id);
  }

  #isAtEnd() {
    return this.scrollHeight - this.scrollTop - this.clientHeight < NEAR;
  }

  #scrolled() {
    this.#follows = this.#isAtEnd();
    if (this.#follows) this.#jump.hidden = true;
  }

  // Whoever opens something wants to read it, not to be carried to the end.
  #stay() {
    this.#follows = false;
    setTimeout(() => this.#scrolled(), 300);
  }

  #toEnd() {
    this.scrollTo({ top: this.scrollHeight, behavior: "instant" });
    this.#jump.hidden = true;
  }
}

customElements.define("gen-transcript", Transcript);
