// Keys: one letter each, and only where nobody is writing.

import { button, el } from "./dom.js";

export const KEYS = [
  ["1 … 5", "work, timeline, questions, agents, spending"],
  ["n", "something new"],
  ["/", "find an agent"],
  ["t", "to the tree (arrows move and fold, Enter opens)"],
  ["s", "steer or resume the open agent"],
  ["i", "interrupt it"],
  ["k", "stop it and keep what it found"],
  ["x", "abort it"],
  ["f", "fork it"],
  ["q", "to the questions"],
  ["?", "these keys"],
  ["Esc", "close, or leave a field"],
];

export function listen(acts) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const writes = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && writes && !document.querySelector("dialog[open]")) writes.blur();
    if (writes || document.querySelector("dialog[open]")) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

export function showKeys() {
  const shown = el(
    "dialog",
    { "aria-label": "Keys", class: "keys" },
    el("h2", {}, "Keys"),
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
