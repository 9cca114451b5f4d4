// Keys: one letter each, and only where nobody is writing.

import { button, el } from "./dom.js";

const KEYS = [
  ["1 … 5", "Work, timeline, questions, agents, spending"],
  ["n", "New conversation"],
  ["/", "Find an agent"],
  ["t", "Agent tree (arrows move and fold, Enter opens)"],
  ["s", "Message the open agent"],
  ["i", "Interrupt it"],
  ["k", "Stop it and keep its findings"],
  ["x", "Stop it"],
  ["f", "Fork it"],
  ["r", "Rewind a conversation to an earlier prompt"],
  ["q", "Next question"],
  ["?", "Keyboard shortcuts"],
  ["Esc", "Close a dialog, or leave a field"],
];

/** @param {Record<string, () => void>} actions */
export function listen(actions) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target instanceof Element ? event.target : null;
    const field = target?.closest("input, textarea, select, [contenteditable]");
    const isOpen = document.querySelector("dialog[open]") !== null;
    if (event.key === "Escape" && field instanceof HTMLElement && !isOpen) field.blur();
    const action = actions[event.key];
    if (field || isOpen || !action) return;
    event.preventDefault();
    action();
  });
}

export function showKeys() {
  const shown = el(
    "dialog",
    { "aria-label": "Keyboard shortcuts", class: "keys" },
    el("h2", {}, "Keyboard shortcuts"),
    el(
      "dl",
      {},
      KEYS.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)]),
    ),
    el(
      "div",
      { class: "buttons" },
      button("Close", () => shown.close(), { class: "primary" }),
    ),
  );
  shown.addEventListener("close", () => shown.remove());
  document.body.append(shown);
  shown.showModal();
}
