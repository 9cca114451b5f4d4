// The model and the permission mode of the server: what counts, and a choice of others.

import { get, may, me, OFFLINE, put as send } from "./api.js";
import { notify, tried } from "./dialogs.js";
import { el } from "./dom.js";

/** @type {[mode: string, says: string][]} */
const MODES = [
  ["default", "Ask before edits"],
  ["acceptEdits", "Allow edits"],
  ["plan", "Plan only"],
  ["dontAsk", "Never ask"],
];

/** Two lists to choose from; nothing for who may only look. */
export function sessionChoice() {
  if (!may("act")) return null;
  const model = el("select", { name: "model", "aria-label": "Model" }, option(me.health.model, me.health.model));
  model.addEventListener("focus", () => offer(model), { once: true });
  model.addEventListener("change", () => choose({ model: model.value }));
  const modes = MODES.some(([mode]) => mode === me.health.mode) ? MODES : [...MODES, [me.health.mode, me.health.mode]];
  const mode = el(
    "select",
    { name: "mode", "aria-label": "Permission mode", disabled: !may("answer") },
    modes.map(([name, says]) => option(name, says)),
  );
  mode.value = me.health.mode;
  mode.addEventListener("change", () => choose({ mode: mode.value }));
  return el("span", { class: "choices" }, model, mode);
}

/** Says where answers come from while no model is configured. */
export function offlineBanner() {
  return el(
    "p",
    { class: "note banner", hidden: me.health.model !== OFFLINE, data: { banner: "offline" } },
    el("b", {}, "No model is configured. "),
    "Answers come from a search of this folder. Choose a model, or set a key such as ANTHROPIC_API_KEY and " +
      "restart gen serve.",
  );
}

/**
 * @param {string} value
 * @param {string} text
 */
function option(value, text) {
  return el("option", { value }, text);
}

/** @param {HTMLSelectElement} list */
async function offer(list) {
  /** @type {{ models: { name: string, model: string | null }[] } | undefined} */
  const told = await tried(() => get("/api/models"));
  for (const each of told?.models ?? []) {
    const known = [...list.options].some((other) => other.value === each.name);
    if (!each.model || known) continue;
    list.append(option(each.name, each.model === each.name ? each.name : `${each.name} (${each.model})`));
  }
}

/** @param {{ model?: string, mode?: string }} what */
async function choose(what) {
  /** @type {{ model: string, mode: string } | undefined} */
  const now = await tried(() => send("/api/session", what));
  if (now) {
    Object.assign(me.health, now);
    notify(what.model ? `Model from the next turn on: ${now.model}` : "All agents now run in this mode.");
  }
  for (const each of document.querySelectorAll("[data-banner]"))
    if (each instanceof HTMLElement) each.hidden = me.health.model !== OFFLINE;
  for (const each of document.querySelectorAll("select[name=mode]"))
    if (each instanceof HTMLSelectElement) each.value = me.health.mode;
  for (const each of document.querySelectorAll("select[name=model]")) {
    if (!(each instanceof HTMLSelectElement)) continue;
    if (![...each.options].some((other) => other.value === (what.model ?? me.health.model)))
      each.append(option(me.health.model, me.health.model));
    each.value = now && what.model ? what.model : me.health.model;
  }
}
