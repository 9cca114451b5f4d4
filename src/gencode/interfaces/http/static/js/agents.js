// <gen-agents>: the agent files: what each gets, what the linter finds, and an editor.

import { get, may, post, put as write, reason, Refusal } from "./api.js";
import { draft, keep } from "./composer.js";
import { dialog, notify, tried } from "./dialogs.js";
import { button, el, icon, ICONS, line } from "./dom.js";
import { plural } from "./format.js";
import { prose } from "./markdown.js";
import { go } from "./router.js";

/** @typedef {import("./api.js").AgentFile} AgentFile */
/** @typedef {import("./api.js").AgentLine} AgentLine */
/** @typedef {import("./api.js").AgentPage} AgentPage */
/** @typedef {import("./api.js").LintedFile} LintedFile */
/** @typedef {import("./api.js").Warning} Warning */
/** @typedef {{ text: string, base: AgentFile }} Draft */

const PAUSE_MS = 400;

/** @param {string} name */
const at = (name) => `/api/agents/${encodeURIComponent(name)}`;

export class AgentsView extends HTMLElement {
  #list = el("ul", { class: "agentlist" });
  #one = el("section", { class: "agentpage", "aria-label": "Agent" });
  #name = "";
  /** @type {AgentLine[]} */
  #agents = [];
  /** @type {Map<string, LintedFile>} */
  #findings = new Map();

  connectedCallback() {
    this.className = "agents";
    if (this.firstChild) return;
    const head = el("header", { class: "viewhead" }, el("h1", {}, "Agents"));
    if (may("act")) {
      const create = button("New agent", () => this.#create(), { class: "primary" });
      create.prepend(icon(ICONS.plus));
      head.append(create);
    }
    this.append(head, this.#list, this.#one);
  }

  async open(name = "") {
    this.#name = name;
    this.classList.toggle("chosen", Boolean(name));
    if (!this.#agents.length) await this.#load();
    this.#draw();
    await this.#show(name);
  }

  async #load() {
    const [listed, linted] = await Promise.all([
      tried(() => get("/api/agents")),
      get("/api/lint").catch(() => null),
    ]);
    this.#agents = listed?.agents ?? [];
    this.#findings = new Map(
      (linted?.files ?? []).map((/** @type {LintedFile} */ each) => [each.path, each]),
    );
    for (const clash of linted?.clashes ?? [])
      notify(`Several files define the agent ${clash.name}: ${clash.paths.join(", ")}`, true);
    this.#draw();
  }

  #draw() {
    this.#list.replaceChildren(...this.#agents.map((each) => el("li", {}, this.#card(each))));
  }

  /** @param {AgentLine} agent */
  #card(agent) {
    const found = this.#findings.get(agent.source);
    const isOff = agent.problem || agent.untrusted || (found && !found.loadable);
    const warnings = found?.warnings.length ?? agent.warnings.length;
    return el(
      "a",
      {
        class: "card",
        href: `#/agents/${encodeURIComponent(agent.name)}`,
        "aria-current": agent.name === this.#name ? "true" : null,
        data: { state: isOff ? "bad" : warnings ? "warned" : "good" },
      },
      el("span", { class: "dot" }),
      el(
        "span",
        { class: "cardtext" },
        el("b", {}, agent.name),
        el("span", { class: "faint" }, line(agent.description, 140)),
        el(
          "span",
          { class: "tags" },
          tag(agent.builtin ? "built-in" : agent.project ? "this folder" : "yours"),
          agent.mode ? tag(agent.mode) : null,
          agent.shadowedBy ? tag("overridden") : null,
          isOff ? tag("disabled", "bad") : null,
          warnings ? tag(plural(warnings, "warning"), "warned") : null,
        ),
      ),
    );
  }

  /** @param {string} name */
  async #show(name) {
    const agent = this.#agents.find((each) => each.name === name);
    if (!agent) {
      this.#one.replaceChildren(
        el(
          "div",
          { class: "empty" },
          el("h2", {}, name ? "Agent not found" : "Choose an agent"),
          el(
            "p",
            {},
            "An agent is a file: its prompt, its tools and its permissions. New agents of this folder are enabled once the folder is trusted.",
          ),
        ),
      );
      return;
    }
    /** @type {[AgentPage | null, AgentFile | null]} */
    const [page, file] = await Promise.all([
      get(at(name)).catch(() => null),
      get(`${at(name)}/file`).catch(() => null),
    ]);
    if (this.#name !== name) return;
    const saved = async () => {
      await this.#load();
      await this.#show(name);
    };
    const prompt = page?.prompt
      ? el("details", {}, el("summary", {}, "Prompt"), prose(page.prompt))
      : null;
    const parts = [
      el("a", { class: "back", href: "#/agents" }, icon(ICONS.back), "All agents"),
      el("h2", {}, agent.name),
      el("p", { class: "soft" }, agent.description),
      agent.problem ? el("p", { class: "bad" }, agent.problem) : null,
      agent.untrusted ? el("p", { class: "warning" }, agent.untrusted) : null,
      page ? facts(page) : null,
      lintResult(this.#findings.get(agent.source), agent.warnings),
      file ? new AgentEditor(agent, file, saved).element : prompt,
    ];
    this.#one.replaceChildren(...parts.filter((each) => each !== null));
  }

  #create() {
    const name = el("input", { name: "name", required: true, maxlength: 60, autocomplete: "off" });
    const description = el("textarea", { name: "description", rows: 2, required: true });
    const tools = el("input", { name: "tools", placeholder: "Read, Grep, Glob", autocomplete: "off" });
    const prompt = el("textarea", { name: "prompt", rows: 6 });
    const user = el("input", { type: "checkbox", name: "user" });
    dialog({
      title: "New agent",
      confirm: "Create agent",
      body: [
        field("Name", name),
        field("When to use it", description),
        field("Tools, separated by commas (empty: all)", tools),
        field("Prompt", prompt),
        may("answer")
          ? el("label", { class: "option" }, user, el("span", {}, "For all folders, not only this one"))
          : null,
      ],
      ready: () => name.focus(),
      act: async () => {
        const names = tools.value
          .split(",")
          .map((each) => each.trim())
          .filter(Boolean);
        const wish = {
          name: name.value.trim(),
          description: description.value.trim(),
          prompt: prompt.value,
          user: user.checked,
        };
        const created = await post("/api/agents", names.length ? { ...wish, tools: names } : wish);
        notify(`Created ${created.path}`);
        await this.#load();
        go(`/agents/${encodeURIComponent(wish.name)}`);
      },
    });
  }
}

/**
 * @param {string} label
 * @param {HTMLElement} input
 */
function field(label, input) {
  return el("label", { class: "field" }, label, input);
}

/** @param {string} text */
function tag(text, kind = "") {
  return el("span", { class: `tag ${kind}` }, text);
}

/** @param {AgentPage} page */
function facts(page) {
  const rows = [
    ["file", page.source],
    ["model", page.usedModel],
    ["mode", page.mode ?? "its parent's"],
    ["turns", page.maxTurns ?? "no limit"],
    ["tools", page.resolvedTools.join(", ") || "none"],
    ["missing tools", page.missing.join(", ")],
    ["subagents", page.sends === null ? "any" : page.sends.join(", ")],
    ["rules", page.rules.join(", ")],
  ].filter(([, value]) => value !== "");
  return el(
    "dl",
    { class: "factlist" },
    rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]),
  );
}

/**
 * @param {LintedFile | undefined} found
 * @param {string[]} [known] What the list of agents warns of.
 */
function lintResult(found, known = []) {
  if (!found && !known.length) return null;
  /** @type {Warning[]} */
  const warnings = found ? found.warnings : known.map((message) => ({ message }));
  const items = warnings.map((each) =>
    el(
      "li",
      {},
      each.line ? el("b", {}, `line ${each.line} `) : null,
      each.message,
      each.code ? el("span", { class: "faint" }, ` ${each.code}`) : null,
    ),
  );
  const good = found?.loadable ? el("p", { class: "good" }, "No problems found.") : null;
  return el(
    "div",
    { class: "lint", role: "status" },
    found && !found.loadable ? el("p", { class: "bad" }, `Not a valid agent: ${found.why_not ?? ""}`) : null,
    items.length ? el("ul", {}, items) : good,
  );
}

// The text of an agent file, with the linter beside it while somebody writes.
class AgentEditor {
  #agent;
  #key;
  #path;
  #saved;
  // What was begun on an older version is still about that one: saving it says that the file has changed.
  #file;
  #latest;
  #timer = 0;
  #words;
  #theirs = el("div", { class: "theirs", hidden: true });
  #found = el("div", {});
  #trouble = el("p", { class: "bad", role: "alert", hidden: true });
  #compare = button("Compare with the new version", () => this.#beside(), { hidden: true });
  #save = button("Save", () => this.#write(), { class: "primary", disabled: true });
  #undo = button("Undo", () => this.#reset(), { class: "quiet", disabled: true });

  /**
   * @param {AgentLine} agent
   * @param {AgentFile} file
   * @param {() => Promise<void>} saved
   */
  constructor(agent, file, saved) {
    this.#agent = agent;
    this.#saved = saved;
    this.#key = `agent ${file.path}`;
    this.#path = `${at(agent.name)}/file`;
    const mine = /** @type {Draft | undefined} */ (draft(this.#key));
    this.#file = mine ? mine.base : file;
    this.#latest = file;
    this.#compare.hidden = this.#file.sha256 === file.sha256;
    const text = mine ? mine.text : file.text;
    const writable = file.editable && may("act") && (agent.project || may("answer"));
    this.#words = el("textarea", {
      class: "file",
      spellcheck: "false",
      rows: Math.min(Math.max(text.split("\n").length + 1, 8), 28),
      readonly: !writable,
      "aria-label": `The file ${file.path}`,
      value: text,
    });
    this.#words.addEventListener("input", () => this.#changed());
    if (text !== this.#file.text) this.#changed();
    const why = file.editable ? "Your token cannot change this file." : "This file cannot be edited here.";
    this.element = el(
      "section",
      { class: "editor" },
      el("h3", {}, "File"),
      el("div", { class: "versions" }, this.#words, this.#theirs),
      this.#found,
      this.#trouble,
      writable ? this.#compare : null,
      writable
        ? el("div", { class: "buttons" }, this.#undo, this.#save)
        : el("p", { class: "faint" }, why),
    );
  }

  #changed() {
    const text = this.#words.value;
    const same = text === this.#file.text;
    this.#save.disabled = same;
    this.#undo.disabled = same;
    keep(this.#key, same ? null : { text, base: this.#file });
    clearTimeout(this.#timer);
    if (same) this.#found.replaceChildren();
    else this.#timer = setTimeout(() => this.#lint(), PAUSE_MS);
  }

  #reset() {
    this.#file = this.#latest;
    this.#words.value = this.#file.text;
    this.#changed();
  }

  async #lint() {
    const text = this.#words.value;
    const shown = await post("/api/lint", { text }).then(
      (told) => lintResult(told.files[0]),
      (error) => el("p", { class: "bad" }, reason(error)),
    );
    if (text === this.#words.value) this.#found.replaceChildren(...(shown ? [shown] : []));
  }

  async #write() {
    this.#save.disabled = true;
    this.#trouble.hidden = true;
    try {
      await write(this.#path, { text: this.#words.value, sha256: this.#file.sha256 });
      keep(this.#key, null);
      notify(this.#agent.project ? "Saved. Run gen trust in this folder to enable the change." : "Saved.");
      await this.#saved();
    } catch (error) {
      this.#fail(error);
      this.#save.disabled = false;
      this.#compare.hidden = !(error instanceof Refusal && error.status === 409);
    }
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#trouble.hidden = false;
    this.#trouble.textContent = reason(error);
  }

  // Somebody else wrote the file meanwhile: whoever has seen that version may save over it.
  async #beside() {
    try {
      this.#latest = /** @type {AgentFile} */ (await get(this.#path));
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#file = this.#latest;
    this.#trouble.hidden = true;
    this.#compare.hidden = true;
    this.#theirs.replaceChildren(
      el("p", { class: "faint" }, "The file as it is now. Saving overwrites it with your text."),
      el("textarea", {
        class: "file",
        readonly: true,
        rows: this.#words.rows,
        "aria-label": "The new version",
        value: this.#file.text,
      }),
    );
    this.#theirs.hidden = false;
    this.#changed();
  }
}

customElements.define("gen-agents", AgentsView);
