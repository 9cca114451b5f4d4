// <gen-agents>: the agent files: what each gets, what the linter says, and an editor.

import { get, may, post } from "./api.js";
import { editor } from "./agent-editor.js";
import { dialog, tell, tried } from "./dialogs.js";
import { button, el, icon, ICONS, line } from "./dom.js";
import { plural } from "./format.js";
import { prose } from "./markdown.js";
import { go } from "./router.js";

class Agents extends HTMLElement {
  #list = el("ul", { class: "agentlist" });
  #one = el("section", { class: "agentpage", "aria-label": "Agent" });
  #name = "";
  #agents = [];
  #findings = new Map();

  connectedCallback() {
    this.className = "agents";
    if (this.firstChild) return;
    const fresh = may("act") ? button("New agent", () => this.#create(), { class: "primary" }) : null;
    fresh?.prepend(icon(ICONS.plus));
    this.append(el("header", { class: "viewhead" }, el("h1", {}, "Agents"), fresh), this.#list, this.#one);
  }

  async open(name = "") {
    this.#name = name;
    this.classList.toggle("chosen", Boolean(name));
    if (!this.#agents.length) await this.load();
    this.#draw();
    await this.#show(name);
  }

  async load() {
    const [listed, linted] = await Promise.all([
      tried(() => get("/api/agents")),
      get("/api/lint").catch(() => null),
    ]);
    this.#agents = listed?.agents ?? [];
    this.#findings = new Map((linted?.files ?? []).map((each) => [each.path, each]));
    for (const clash of linted?.clashes ?? [])
      tell(`Two files are called ${clash.name}: ${clash.paths.join(", ")}`, true);
    this.#draw();
  }

  #draw() {
    this.#list.replaceChildren(
      ...this.#agents.map((each) => {
        const found = this.#findings.get(each.source);
        const trouble = each.problem || each.untrusted || (found && !found.loadable);
        const warnings = found?.warnings.length ?? each.warnings.length;
        return el(
          "li",
          {},
          el(
            "a",
            {
              class: "card",
              href: `#/agents/${encodeURIComponent(each.name)}`,
              "aria-current": each.name === this.#name ? "true" : null,
              data: { state: trouble ? "bad" : warnings ? "warned" : "good" },
            },
            el("span", { class: "dot" }),
            el(
              "span",
              { class: "cardtext" },
              el("b", {}, each.name),
              el("span", { class: "faint" }, line(each.description, 140)),
              el(
                "span",
                { class: "tags" },
                tag(each.builtin ? "built in" : each.project ? "this folder" : "yours"),
                each.mode ? tag(each.mode) : null,
                each.shadowedBy ? tag("hidden by another") : null,
                trouble ? tag("does not count", "bad") : null,
                warnings ? tag(plural(warnings, "remark"), "warned") : null,
              ),
            ),
          ),
        );
      }),
    );
  }

  async #show(name) {
    const agent = this.#agents.find((each) => each.name === name);
    if (!agent) {
      this.#one.replaceChildren(
        el(
          "div",
          { class: "empty" },
          el("h2", {}, name ? "There is no such agent" : "Choose an agent"),
          el(
            "p",
            {},
            "An agent is a file: who it is, which tools it gets, and what it may do. New ones of this folder count once the folder is trusted.",
          ),
        ),
      );
      return;
    }
    const found = this.#findings.get(agent.source);
    const [page, file] = await Promise.all([
      get(`/api/agents/${encodeURIComponent(name)}`).catch(() => null),
      get(`/api/agents/${encodeURIComponent(name)}/file`).catch(() => null),
    ]);
    if (this.#name !== name) return;
    this.#one.replaceChildren(
      ...[
        el("a", { class: "back", href: "#/agents" }, icon(ICONS.back), "All agents"),
        el("h2", {}, agent.name),
        el("p", { class: "soft" }, agent.description),
        agent.problem ? el("p", { class: "bad" }, agent.problem) : null,
        agent.untrusted ? el("p", { class: "warning" }, agent.untrusted) : null,
        page ? facts(page) : null,
        lint(found, agent.warnings),
        file
          ? editor(agent, file, async () => {
              await this.load();
              await this.#show(name);
            })
          : page?.prompt
            ? el("details", {}, el("summary", {}, "What it is told"), prose(page.prompt))
            : null,
      ].filter(Boolean),
    );
  }

  #create() {
    const name = el("input", { name: "name", required: true, maxlength: 60, autocomplete: "off" });
    const body = [
      field("Name", name),
      field("When should it be sent?", el("textarea", { name: "description", rows: 2, required: true })),
      field(
        "Tools, with commas (empty: all)",
        el("input", { name: "tools", placeholder: "Read, Grep, Glob", autocomplete: "off" }),
      ),
      field("What is it told?", el("textarea", { name: "prompt", rows: 6 })),
      may("answer")
        ? el(
            "label",
            { class: "option" },
            el("input", { type: "checkbox", name: "user" }),
            el("span", {}, "for all folders (otherwise for this one, once it is trusted)"),
          )
        : null,
    ].filter(Boolean);
    dialog({
      title: "New agent",
      confirm: "Write the file",
      body,
      ready: () => name.focus(),
      act: async ({ elements }) => {
        const tools = elements.tools.value
          .split(",")
          .map((each) => each.trim())
          .filter(Boolean);
        const wish = {
          name: name.value.trim(),
          description: elements.description.value.trim(),
          prompt: elements.prompt.value,
          user: Boolean(elements.user?.checked),
        };
        const made = await post("/api/agents", tools.length ? { ...wish, tools } : wish);
        tell(`Wrote ${made.path}`);
        await this.load();
        go(`/agents/${encodeURIComponent(wish.name)}`);
      },
    });
  }
}

function field(label, input) {
  return el("label", { class: "field" }, label, input);
}

function tag(text, kind = "") {
  return el("span", { class: `tag ${kind}` }, text);
}

function facts(page) {
  const rows = [
    ["file", page.source],
    ["model", page.usedModel],
    ["mode", page.mode ?? "the sender's"],
    ["turns", page.maxTurns ?? "no limit"],
    ["tools", page.resolvedTools.join(", ") || "none"],
    ["missing", page.missing.join(", ")],
    ["may send", page.sends === null ? "any" : page.sends.join(", ")],
    ["rules", page.rules.join(", ")],
  ].filter(([, value]) => value !== "");
  return el(
    "dl",
    { class: "factlist" },
    rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]),
  );
}

export function lint(found, warnings = []) {
  if (!found && !warnings.length) return null;
  const remarks = found ? found.warnings : warnings.map((message) => ({ message }));
  return el(
    "div",
    { class: "lint", role: "status" },
    found && !found.loadable ? el("p", { class: "bad" }, `This is no agent: ${found.why_not ?? ""}`) : null,
    remarks.length
      ? el(
          "ul",
          {},
          remarks.map((each) =>
            el(
              "li",
              {},
              each.line ? el("b", {}, `line ${each.line} `) : null,
              each.message,
              each.code ? el("span", { class: "faint" }, ` ${each.code}`) : null,
            ),
          ),
        )
      : found?.loadable
        ? el("p", { class: "good" }, "The linter has no remarks.")
        : null,
  );
}

customElements.define("gen-agents", Agents);
