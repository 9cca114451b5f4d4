// The text of an agent file, with the linter beside it while somebody writes.

import { get, may, post, put as send } from "./api.js";
import { lint } from "./agents.js";
import { tell } from "./dialogs.js";
import { button, el } from "./dom.js";
import { draft, keep } from "./drafts.js";

const PAUSE_MS = 400;

export function editor(agent, told, saved) {
  const key = `agent ${told.path}`;
  const mine = draft(key);
  // What was begun on an older version is still about that one: saving it tells that the file has changed.
  let file = mine ? mine.base : told;
  let latest = told;
  const path = `/api/agents/${encodeURIComponent(agent.name)}/file`;
  const writable = file.editable && may("act") && (agent.project || may("answer"));
  const words = el("textarea", {
    class: "file",
    spellcheck: "false",
    rows: Math.min(Math.max(file.text.split("\n").length + 1, 8), 28),
    readonly: !writable,
    "aria-label": `The file ${file.path}`,
    value: mine ? mine.text : file.text,
  });
  const theirs = el("div", { class: "theirs", hidden: true });
  const found = el("div", {});
  const trouble = el("p", { class: "bad", role: "alert", hidden: true });
  const compare = button("Show the new version beside yours", () => beside(), {
    hidden: file.sha256 === told.sha256,
  });
  const save = button("Save", () => write(), { class: "primary", disabled: true });
  const undo = button(
    "Undo",
    () => {
      file = latest;
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
    keep(key, same ? null : { text: words.value, base: file });
    clearTimeout(timer);
    if (same) found.replaceChildren();
    else timer = setTimeout(look, PAUSE_MS);
  }

  async function write() {
    save.disabled = true;
    trouble.hidden = true;
    try {
      await send(path, { text: words.value, sha256: file.sha256 });
      keep(key, null);
      tell(agent.project ? "Saved. A changed folder has to be trusted again: gen trust" : "Saved.");
      await saved();
    } catch (error) {
      trouble.hidden = false;
      trouble.textContent = error.message;
      save.disabled = false;
      compare.hidden = error.status !== 409;
    }
  }

  // Somebody else wrote the file meanwhile: whoever has seen that version may save over it.
  async function beside() {
    try {
      file = latest = await get(path);
    } catch (error) {
      trouble.textContent = error.message;
      return;
    }
    trouble.hidden = true;
    compare.hidden = true;
    const text = el("textarea", {
      class: "file",
      readonly: true,
      rows: words.rows,
      "aria-label": "The new version",
      value: file.text,
    });
    theirs.replaceChildren(
      el("p", { class: "faint" }, "The file as it is now. Save writes yours over it."),
      text,
    );
    theirs.hidden = false;
    changed();
  }

  words.addEventListener("input", changed);
  if (words.value !== file.text) changed();
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
    el("div", { class: "versions" }, words, theirs),
    found,
    trouble,
    writable ? compare : null,
    writable ? el("div", { class: "buttons" }, undo, save) : why,
  );
}
