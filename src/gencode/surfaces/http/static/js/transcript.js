// <gen-transcript>: everything one agent heard, said and did, as it grows.

import { get, may, task as at } from "./api.js";
import { button, el, framed, icon, ICONS, line } from "./dom.js";
import { plural } from "./format.js";
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
  #calls = new Map();
  #loose = [];
  #reading = false;
  #again = false;
  #spoken = "";
  #above = button("Show earlier", () => this.#earlier(), { class: "quiet earlier", hidden: true });
  #list = el("div", { class: "facts", role: "log", "aria-label": "Transcript", "aria-live": "off" });
  #speech = el("article", { class: "said assistant speaking", hidden: true });
  #doing = el("p", { class: "doing", role: "status", hidden: true });
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
    this.append(this.#above, this.#list, this.#speech, this.#doing, this.#jump);
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
    const page = await get(at(id, "/events"), { before: LAST, limit: PAGE });
    if (this.#id !== id) return;
    this.#first = page.events[0]?.seq ?? 0;
    this.#list.replaceChildren();
    this.#calls.clear();
    this.#loose = [];
    this.#add(page.events);
    this.#above.hidden = this.#first <= 1;
    this.#sent();
    this.#toEnd();
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
      if (fact.type === "MessageAdded" && fact.message.role === "assistant") this.#spoken = "";
    }
    if (more) this.refresh();
  };

  async refresh() {
    if (this.#reading) {
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
        if (id !== this.#id) return;
        this.#add(page.events);
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
    else this.#doing.replaceChildren(partType === "thinking" ? "thinking…" : line(content, 200));
    this.#doing.hidden = partType === "text" || !content;
    this.#speak();
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
    const task = tasks.byId.get(this.#id);
    if (!task || task.status === "running") return;
    this.#spoken = "";
    this.#speech.hidden = true;
    this.#doing.hidden = true;
    const end = this.#list.querySelector(".end:last-of-type");
    if (end?.fact) end.replaceWith(this.#end(end.fact));
  };

  // The agents that calls of this one sent, as long as those calls run.
  #sent() {
    const running = [...this.#calls.values()].filter((each) => !each.result && each.call.name === "Task");
    if (!running.length) return;
    const free = new Set(tasks.below(this.#id));
    for (const shown of running) {
      const { description, prompt } = shown.call.input;
      const child = [...free].find((each) => each.prompt === prompt || each.title === line(description, 160));
      if (!child) continue;
      free.delete(child);
      follow(shown, child);
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
          "Asked for",
          event.parentSessionId ? [" by ", taskLink(event.parentSessionId)] : "",
        );
      case "SubSessionStatusChanged":
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
      case "TaskBackgrounded":
        return marker(event.at, "Goes on in the background");
      case "TaskStalled":
        return marker(event.at, `No sign of life for ${Math.round(event.seconds)} s`);
      case "TaskImported":
        return marker(event.at, "Came from a file");
      case "SubSessionCompleted":
      case "SubSessionFailed":
      case "SubSessionCancelled":
        return this.#end(event);
      default:
        return null;
    }
  }

  #end(event) {
    const made = ended(event, tasks.byId.get(this.#id));
    made.fact = event;
    return made;
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
      for (const each of made.querySelectorAll(".call")) this.#calls.set(each.call.id, each);
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

customElements.define("gen-transcript", Transcript);
