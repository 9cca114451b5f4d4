// The text of an agent file, with the linter beside it while somebody writes.

import { may, post, put as send } from "./api.js";
import { lint } from "./agents.js";
import { tell } from "./dialogs.js";
import { button, el } from "./dom.js";

const PAUSE_MS = 400;

export function editor(agent, file, saved) {
  const writable = file.editable && may("act") && (agent.project || may("answer"));
  const words = el("textarea", {
    class: "file",
    spellcheck: "false",
    rows: Math.min(Math.max(file.text.split("\n").length + 1, 8), 28),
    readonly: !writable,
    "aria-label": `The file ${file.path}`,
    value: file.text,
  });
  const found = el("div", {});
  const trouble = el("p", { class: "bad", role: "alert", hidden: true });
  const save = button("Save", () => write(), { class: "primary", disabled: true });
  const undo = button(
    "Undo",
    () => {
      words.value = file.text;
      changed();
    },
    { class: "quiet", disabled: true },
  );
  let timer = 0;

  async function look() {
    const text = words.value;
    const told = await post("/api/lint", { text }).catch((error) => ({ error }));
    if (text !== words.value) return;
    const made = told.error ? el("p", { class: "bad" }, told.error.message) : lint(told.files[0]);
    found.replaceChildren(...(made ? [made] : []));
  }

  function changed() {
    const same = words.value === file.text;
    save.disabled = same;
    undo.disabled = same;
    clearTimeout(timer);
    if (same) found.replaceChildren();
    else timer = setTimeout(look, PAUSE_MS);
  }

  async function write() {
    save.disabled = true;
    trouble.hidden = true;
    try {
      await send(`/api/agents/${encodeURIComponent(agent.name)}/file`, {
        text: words.value,
        sha256: file.sha256,
      });
      tell(agent.project ? "Saved. A changed folder has to be trusted again: gen trust" : "Saved.");
      await saved();
    } catch (error) {
      trouble.hidden = false;
      trouble.textContent = error.message;
      save.disabled = false;
    }
  }

  words.addEventListener("input", changed);
  const why = writable
    ? null
    : el(
        "p",
        { class: "faint" },
        file.editable ? "Your token may not change this file." : "This file is not changed from here.",
      );
  return el(
    "section",
    { class: "editor" },
    el("h3", {}, "The file"),
    words,
    found,
    trouble,
    writable ? el("div", { class: "buttons" }, undo, save) : why,
  );
}
