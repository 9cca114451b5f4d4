// <gen-start>: a composer to start from, and the latest conversations.

import { folderName, get, may, me, post } from "./api.js";
import { Composer } from "./composer.js";
import { el, framed, line } from "./dom.js";
import { ago, atWork, plural, WORDS } from "./format.js";
import { go } from "./router.js";
import { offlineBanner, sessionChoice } from "./session-choice.js";
import { tasks } from "./task-store.js";

/** @typedef {import("./task-store.js").Task} Task */

const IDEAS = [
  "Where are errors handled in this project?",
  "Where does this program start?",
  "Which file reads the settings?",
];
const MOST = 12;

export class StartView extends HTMLElement {
  #recent = el("section", { class: "recent", "aria-label": "Conversations" });
  #counts = el("p", { class: "counts" });
  /** @type {Composer | null} */
  #composer = null;
  #later = framed(() => this.#draw());

  connectedCallback() {
    this.className = "start";
    if (!this.firstChild) this.#build();
    tasks.changed.subscribe(this.#later);
    this.#later();
  }

  disconnectedCallback() {
    tasks.changed.unsubscribe(this.#later);
  }

  focusComposer() {
    this.#composer?.focus();
  }

  #build() {
    const acts = may("act");
    const title = acts ? ["What should be done in ", el("em", {}, folderName()), "?"] : [el("em", {}, folderName())];
    this.append(el("h1", {}, title), this.#counts, offlineBanner());
    if (acts) this.#chat();
    else
      this.append(
        el(
          "p",
          { class: "soft" },
          "Your token is read-only: choose an agent to follow it. Starting and steering agents needs a token with the right act.",
        ),
      );
    const { trusted } = me.health;
    if (trusted === "untrusted" || trusted === "changed") {
      this.append(
        el(
          "p",
          { class: "note" },
          trusted === "changed"
            ? "This folder's settings and agents have changed since you trusted them, and are ignored. Run gen trust in this folder to review them."
            : "This folder is not trusted: its settings and agents are ignored. Run gen trust in this folder to review them.",
        ),
      );
    }
    this.append(el("a", { class: "all", href: "#/tasks" }, "All agents"), this.#recent);
  }

  #chat() {
    const agent = el(
      "select",
      { name: "agent", "aria-label": "Agent" },
      el("option", { value: "" }, "Conversation with the main agent"),
    );
    const composer = new Composer({
      label: "Ask a question or describe a task",
      key: "start",
      rows: 3,
      beside: [agent, sessionChoice()],
      send: (text) => this.#send(text, agent.value),
    });
    this.#composer = composer;
    const ideas = el(
      "div",
      { class: "ideas", "aria-label": "Ideas" },
      IDEAS.map((each) =>
        el("button", { type: "button", class: "chip", on: { click: () => composer.write(each) } }, each),
      ),
    );
    this.append(composer.form, ideas);
    this.#offer(agent).catch(() => {});
  }

  /** @param {HTMLSelectElement} agent */
  async #offer(agent) {
    /** @type {import("./api.js").AgentLine[]} */
    const agents = (await get("/api/agents")).agents;
    for (const each of agents) {
      if (each.problem || each.untrusted || each.shadowedBy || each.hidden) continue;
      agent.append(el("option", { value: each.name }, `Task for ${each.name}`));
    }
  }

  /**
   * @param {string} text
   * @param {string} agent
   */
  async #send(text, agent) {
    if (agent) {
      const started = await post("/api/tasks", { agent, prompt: text, description: line(text, 80) });
      go(`/task/${started.agentId}`);
      return;
    }
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    const chat = `page-${Date.now().toString(36)}-${random.toString(36)}`;
    const taken = await post(`/api/conversations/web/${chat}`, { text });
    go(`/task/${taken.sessionId}`);
  }

  #draw() {
    const all = [...tasks.byId.values()];
    const running = all.filter((each) => each.status === "running").length;
    const pending = all.filter((each) => each.status === "pending").length;
    this.#counts.textContent = all.length
      ? `${atWork(running, pending)}, ${tasks.complete ? "" : "more than "}${plural(all.length, "task")} in total`
      : "No agents have run here yet. Your first message starts a conversation.";
    const recent = tasks.roots().slice(0, MOST);
    const shape = recent.map((each) => `${each.id} ${each.status} ${tasks.total(each).tasks}`).join();
    if (this.#recent.dataset.shape === shape) return;
    this.#recent.dataset.shape = shape;
    const entries = recent.map((each) => el("li", {}, entry(each)));
    this.#recent.replaceChildren(...(recent.length ? [el("h2", {}, "Recent"), el("ul", {}, entries)] : []));
  }
}

/** @param {Task} task */
function entry(task) {
  const { tasks: below } = tasks.total(task);
  const facts = [task.agent, WORDS[task.status], below ? plural(below, "subagent") : "", ago(task.created)];
  return el(
    "a",
    { class: "card", href: `#/task/${task.id}`, data: { status: task.status } },
    el("span", { class: "dot" }),
    el(
      "span",
      { class: "cardtext" },
      el("b", {}, task.title || task.agent),
      el("span", { class: "faint" }, facts.filter(Boolean).join(" · ")),
    ),
  );
}

customElements.define("gen-start", StartView);
