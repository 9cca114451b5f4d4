// <gen-start>: a chat to start from, and the conversations there are.

import { get, may, me, post } from "./api.js";
import { composer } from "./composer.js";
import { el, framed, line } from "./dom.js";
import { ago, atWork, plural, WORDS } from "./format.js";
import { go } from "./router.js";
import { tasks } from "./store.js";

const IDEAS = [
  "Where are errors handled in this project?",
  "What changed last, and what could break?",
  "Which parts have no tests?",
];
const MOST = 12;

class Start extends HTMLElement {
  #recent = el("section", { class: "recent", "aria-label": "Conversations" });
  #counts = el("p", { class: "counts" });
  #words = null;
  #later = framed(() => this.#draw());

  connectedCallback() {
    this.className = "start";
    if (!this.firstChild) this.#build();
    tasks.addEventListener("change", this.#later);
    this.#later();
  }

  disconnectedCallback() {
    tasks.removeEventListener("change", this.#later);
  }

  focusWords() {
    this.#words?.words.focus();
  }

  #build() {
    const name = me.health.workspace.split("/").filter(Boolean).at(-1) ?? "/";
    this.append(
      el(
        "h1",
        {},
        may("act") ? "What should be done in " : "What is done in ",
        el("em", {}, name),
        may("act") ? "?" : "",
      ),
      this.#counts,
    );
    if (may("act")) this.#chat();
    else
      this.append(
        el(
          "p",
          { class: "soft" },
          "Your token may look: choose an agent to read along. Starting and steering needs a token with the right to act.",
        ),
      );
    if (me.health.trusted === "untrusted" || me.health.trusted === "changed") {
      this.append(
        el(
          "p",
          { class: "note" },
          me.health.trusted === "changed"
            ? "What this folder brings has changed since it was trusted: its settings and agents do not count. See: gen trust"
            : "This folder is not trusted: the settings and agents it brings do not count. See: gen trust",
        ),
      );
    }
    this.append(el("a", { class: "all", href: "#/tasks" }, "All agents"), this.#recent);
  }

  #chat() {
    const who = el(
      "select",
      { name: "agent", "aria-label": "Who should do it" },
      el("option", { value: "" }, "main agent, a conversation"),
    );
    this.#words = composer({
      label: "Ask, or say what should be done",
      key: "start",
      rows: 3,
      beside: [who],
      send: (text) => this.#send(text, who.value),
    });
    const ideas = el(
      "div",
      { class: "ideas", "aria-label": "Ideas" },
      IDEAS.map((each) =>
        el("button", { type: "button", class: "chip", on: { click: () => this.#take(each) } }, each),
      ),
    );
    this.append(this.#words, ideas);
    this.#agents(who).catch(() => {});
  }

  async #agents(who) {
    const { agents } = await get("/api/agents");
    for (const each of agents) {
      if (each.problem || each.untrusted || each.shadowedBy || each.hidden) continue;
      who.append(el("option", { value: each.name }, `send ${each.name}`));
    }
  }

  #take(idea) {
    this.#words.write(idea);
  }

  async #send(text, agent) {
    if (agent) {
      const made = await post("/api/tasks", { agent, prompt: text, description: line(text, 80) });
      tasks.take(made);
      go(`/task/${made.agentId}`);
      return;
    }
    const chat = `page-${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
    const taken = await post(`/api/conversations/web/${chat}`, { text });
    tasks.conversations.set(taken.sessionId, taken.address);
    tasks.renew(taken.sessionId);
    go(`/task/${taken.sessionId}`);
  }

  #draw() {
    const all = [...tasks.byId.values()];
    const number = (status) => all.filter((each) => each.status === status).length;
    this.#counts.textContent = all.length
      ? `${atWork(number("running"), number("pending"))}, ${plural(all.length, "task")} in the journal${tasks.complete ? "" : " so far"}`
      : "No agent has worked here yet. The first word begins a conversation.";
    const recent = tasks.roots().slice(0, MOST);
    const shape = recent.map((each) => `${each.id} ${each.status} ${tasks.total(each).tasks}`).join();
    if (this.#recent.dataset.shape === shape) return;
    this.#recent.dataset.shape = shape;
    this.#recent.replaceChildren(
      ...(recent.length
        ? [
            el("h2", {}, "Lately"),
            el(
              "ul",
              {},
              recent.map((each) => el("li", {}, entry(each))),
            ),
          ]
        : []),
    );
  }
}

function entry(task) {
  const total = tasks.total(task);
  return el(
    "a",
    { class: "card", href: `#/task/${task.id}`, data: { status: task.status } },
    el("span", { class: "dot" }),
    el(
      "span",
      { class: "cardtext" },
      el("b", {}, task.title || task.agent),
      el(
        "span",
        { class: "faint" },
        [task.agent, WORDS[task.status], total.tasks ? plural(total.tasks, "agent") : "", ago(task.created)]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
  );
}

customElements.define("gen-start", Start);
