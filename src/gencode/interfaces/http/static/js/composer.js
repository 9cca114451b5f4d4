// A box to write in: Enter sends, Shift+Enter makes a new line.

import { tried } from "./dialogs.js";
import { el, put } from "./dom.js";
import { draft, keep } from "./drafts.js";

// `key` is under what its words are kept while another view is open.
export function composer({ label, key, rows = 1, send, beside = [] }) {
  const words = el("textarea", {
    rows,
    maxlength: 200000,
    "aria-label": label,
    placeholder: label,
    value: draft(key),
  });
  const press = el("button", { type: "submit", class: "primary" }, "Send");
  const form = el(
    "form",
    { class: "composer" },
    words,
    el(
      "div",
      { class: "under" },
      ...beside,
      el("span", { class: "hint" }, "Enter sends, Shift+Enter makes a line"),
      press,
    ),
  );
  const grow = () => {
    words.style.height = "auto";
    words.style.height = `${Math.min(words.scrollHeight + 2, 260)}px`;
  };
  words.addEventListener("input", () => {
    keep(key, words.value);
    grow();
  });
  words.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = words.value;
    if (!text.trim() || press.disabled) return;
    press.disabled = true;
    const done = await tried(async () => {
      await send(text);
      return true;
    });
    press.disabled = false;
    if (done && draft(key) === text) keep(key, "");
    if (done && words.value === text) {
      words.value = "";
      grow();
    }
  });
  if (words.value) requestAnimationFrame(grow);
  form.write = (text) => {
    words.value = text;
    keep(key, text);
    grow();
    words.focus();
  };
  form.words = words;
  form.label = (verb, hint) => {
    put(press, verb);
    words.placeholder = hint;
    words.setAttribute("aria-label", hint);
  };
  return form;
}
