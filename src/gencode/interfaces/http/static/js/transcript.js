// <gen-transcript>: everything one agent heard, said and did, as it grows.

import { get, may, task as at } from "./api.js";
import { asOf } from "./folding.js";
import { button, el, framed, icon, ICONS, line } from "./dom.js";
import { ACTIVE, plural } from "./format.js";
import { live } from "./live.js";
import {
  assistantMessage,
  decide,
  ended,
  finish,
  follow,
  forkButton,
  marker,
  taskLink,
  userMessage,
  waitingWords,
} from "./messages.js";
import { prose } from "./markdown.js";
import { tasks } from "./store.js";

const PAGE = 150;
const MOST = 600;
const NEAR = 80;
const LAST = 2 ** 53;
const FIRST = 4;

class Transcript extends HTMLElement {
  onfork = () => {};
  #id = "";
  #first = 0;
  #last = 0;
  #began = 0;
  #calls = new Map();
  #loose = [];
  #opened = false;
  #opening = null;
  #reading = false;
  #again = false;
  #spoken = "";
  #above = button("Show earlier", () => this.#earlier(), { class: "quiet earlier", hidden: true });
  #list = el("div", { class: "facts", role: "log", "aria-label": "Transcript", "aria-live": "off" });
  #speech = el("article", { class: "said assistant speaking", hidden: true });
  #doing = el("p", { class: "doing", role: "status", hidden: true });
  #letters = el("div", { class: "letters", hidden: true });
  #jump = button("New below", () => this.#toEnd(), { class: "jump", hidden: true });
  #speak = framed(() => this.#spoke());
  #follows = true;
  #size = new ResizeObserver(() => {
    if (this.#follows) this.#toEnd();
  });

  connectedCallback() {
    if (this.firstChild) return;
    this.tabIndex = 0;
    this.setAttribute("aria-label", "Transcript");
    this.#jump.prepend(icon(ICONS.down));
    this.append(this.#above, this.#list, this.#speech, this.#doing, this.#letters, this.#jump);
    this.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#list.addEventListener("click", () => this.#stay());
    for (const each of [this, this.#list, this.#speech]) this.#size.observe(each);
    live.addEventListener("facts", this.#heard);
    tasks.addEventListener("change", this.#changed);
  }

  disconnectedCallback() {
    live.removeEventListener("facts", this.#heard);
    tasks.removeEventListener("change", this.#changed);
  }

  async open(id) {
    this.#id = id;
    this.#opened = false;
    this.#opening = get(at(id, "/events"), { before: LAST, limit: PAGE }).finally(() => {
      this.#opening = null;
    });
    const page = await this.#opening;
    if (this.#id !== id) return;
    this.#first = page.events[0]?.seq ?? 0;
    this.#list.replaceChildren();
    this.#calls.clear();
    this.#loose = [];
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
    this.toggleAttribute("data-conversation", Boolean(task && tasks.isConversation(task)));
    this.#sent();
    this.#receipts(task);
    this.#wait(task);
  }

  // Said, and not heard yet: the words that a task in line begins with, and those that were sent to it.
  #wait(task) {
    const letters = tasks.letters.get(this.#id) ?? [];
    const begins = task?.status === "pending" && !task.turns && !this.#list.querySelector(".said");
    const works = !task || ACTIVE.has(task.status) || tasks.isConversation(task);
    const how = works ? "waits to be heard" : "was not heard; it hears this when it goes on";
    const shape = JSON.stringify([begins, how, letters]);
    if (this.#letters.dataset.shape === shape) return;
    this.#letters.dataset.shape = shape;
    this.#letters.replaceChildren(
      ...(begins ? [waitingWords("What it will do", "once it begins", task.prompt)] : []),
      ...letters.map((each) => waitingWords("You", how, each.text)),
    );
    this.#letters.hidden = !this.#letters.firstChild;
    if (this.#follows) this.#toEnd();
  }

  // A receipt is drawn once, with the figures of that end, however the task goes on.
  #receipts(task) {
    for (const end of this.#list.querySelectorAll(".end")) {
      if (end.frozen) continue;
      if (task?.toldEnd === end.fact.at) end.freeze(task);
      else if (end.fact.seq < this.#began || (task && ACTIVE.has(task.status))) {
        end.frozen = true;
        asOf(this.#id, end.fact.seq).then(end.freeze, () => end.freeze(null));
      }
    }
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
    for (const each of loose) this.#attach(...each);
    this.#calls = new Map([...this.#calls, ...known]);
    this.#list.append(...later);
    this.#drawn();
    this.#first = page.events[0].seq;
    this.#above.hidden = this.#first <= 1;
    this.scrollTop += this.scrollHeight - height;
  }

  // The stream tells that there is more, and hands on what is just being said.
  #heard = (event) => {
    let more = false;
    for (const fact of event.detail) {
      if (fact.task !== this.#id) continue;
      if (fact.seq === null) this.#passing(fact);
      else more ||= fact.seq > this.#last;
      if (fact.type !== "MessageAdded") continue;
      if (fact.message.role === "assistant") this.#spoken = "";
      if (fact.message.role === "tool") this.#does("thinking", "");
    }
    if (more) this.refresh();
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

  #passing({ partType, content }) {
    if (partType === "text") this.#spoken += content;
    else if (partType === "restart") this.#spoken = "";
    else this.#does(partType, content);
    if (partType === "text" || partType === "restart") this.#doing.hidden = true;
    this.#speak();
  }

  // What it does at this moment. One tool that has ended says nothing about the others of the same reply.
  #does(partType, content) {
    if (partType === "result" || partType === "error") return;
    const thinks = partType === "thinking";
    this.#doing.replaceChildren(thinks ? "thinking…" : line(content, 200));
    this.#doing.hidden = !thinks && !content;
  }

  #spoke() {
    this.#speech.hidden = !this.#spoken;
    if (this.#spoken)
      this.#speech.replaceChildren(
        el("div", { class: "who" }, tasks.byId.get(this.#id)?.agent ?? ""),
        prose(this.#spoken),
      );
    if (this.#follows) this.#toEnd();
  }

  #changed = (event) => {
    this.#sent();
    if (!event.detail.has(this.#id)) return;
    this.#drawn();
    const task = tasks.byId.get(this.#id);
    if (!task || task.status === "running") return;
    this.#spoken = "";
    this.#speech.hidden = true;
    this.#doing.hidden = true;
  };

  // The agents that calls of this one sent. A result names its agent; before that, it is the first one that was
  // sent after the call and that no other call has.
  #sent() {
    const sending = [...this.#calls.values()].filter((each) => each.call.name === "Task" || each.child);
    const taken = new Set(sending.map((each) => each.child));
    for (const shown of sending) {
      if (!shown.child && !shown.result) {
        shown.child = tasks.below(this.#id).find((each) => !taken.has(each.id) && fits(shown, each))?.id;
        taken.add(shown.child);
      }
      const child = tasks.byId.get(shown.child);
      if (child && !shown.result?.error) follow(shown, child);
    }
  }

  #add(events) {
    for (const event of events) {
      const made = this.#draw(event);
      if (made) this.#list.append(made);
      this.#last = Math.max(this.#last, event.seq);
    }
  }

  #draw(event) {
    switch (event.type) {
      case "SubSessionCreated":
        return marker(
          event.at,
          event.parentSessionId ? "Asked for by " : "Asked for by a person or a program",
          event.parentSessionId ? taskLink(event.parentSessionId) : "",
        );
      case "SubSessionStatusChanged":
        this.#began = Math.max(this.#began, event.seq);
        return marker(
          event.at,
          event.oldStatus === "Pending" ? "Began" : "Went on",
          event.model ? ` with ${event.model}` : "",
        );
      case "MessageAdded":
        return this.#message(event);
      case "CallDecided":
        this.#attach(event.call, decide, event);
        return null;
      case "TaskForked":
        return this.#forked(event);
      case "TranscriptCompacted":
        return marker(
          event.at,
          `The first ${plural(event.upto, "message")} became a summary${event.why ? `: ${event.why}` : ""}`,
        );
      case "TaskQueued":
        return marker(event.at, "Waits for its turn to go on");
      case "TaskBackgrounded":
        return marker(event.at, "Goes on in the background");
      case "TaskStalled":
        return marker(event.at, `No sign of life for ${Math.round(event.seconds)} s`);
      case "TaskImported":
        return marker(event.at, "Came from a file");
      case "SubSessionCompleted":
      case "SubSessionFailed":
      case "SubSessionCancelled":
        return ended(event);
      default:
        return null;
    }
  }

  #message(event) {
    const { message } = event;
    if (message.role === "tool") {
      for (const result of message.results) this.#attach(result.call, finish, result);
      return null;
    }
    const agent = tasks.byId.get(this.#id)?.agent ?? "agent";
    const made =
      message.role === "user"
        ? userMessage(message, event.at, this.#sender(event))
        : assistantMessage(message, event.at, agent);
    if (message.role === "assistant")
      for (const each of made.querySelectorAll(".call")) {
        each.at = Date.parse(event.at);
        this.#calls.set(each.call.id, each);
      }
    else tasks.heard(this.#id, message.text, event.seq);
    if (may("act")) made.append(forkButton(() => this.onfork(event.seq)));
    return made;
  }

  // The first words to an agent are those of whoever sent it.
  #sender({ seq }) {
    const parent = tasks.byId.get(this.#id)?.parent;
    return parent && seq && seq <= FIRST ? (tasks.byId.get(parent)?.agent ?? "") : "";
  }

  // What belongs to a call; it waits where the call is not in the page yet.
  #attach(call, add, what) {
    if (this.#calls.has(call)) add(this.#calls.get(call), what);
    else this.#loose.push([call, add, what]);
  }

  #forked(event) {
    const inside = event.messages
      .map((message) => this.#message({ message, at: "", seq: event.seq }))
      .filter(Boolean);
    return el(
      "details",
      { class: "earlierlife" },
      el(
        "summary",
        {},
        "Began as a copy of ",
        taskLink(event.source),
        ` after fact ${event.upto}: ${plural(event.messages.length, "message")}`,
      ),
      inside,
    );
  }

  // What is far above leaves the page; it is shown again when somebody asks for it.
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
    this.scrollTop = this.scrollHeight;
    this.#jump.hidden = true;
  }
}

function fits(shown, child) {
  const { description, prompt, resume } = shown.call.input;
  if (resume) return child.id === resume;
  if (!(child.created >= shown.at)) return false;
  return child.prompt === prompt || child.title === line(description, 160);
}

customElements.define("gen-transcript", Transcript);
