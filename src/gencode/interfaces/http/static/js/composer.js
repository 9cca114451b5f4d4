// A box to write in: Enter sends, Shift+Enter inserts a line break. Drafts are kept while the page is open.

import { tried } from "./dialogs.js";
import { el, put } from "./dom.js";

/** @type {Map<string, unknown>} */
const drafts = new Map();

/** @param {string} key */
export function draft(key) {
  return drafts.get(key);
}

/**
 * @param {string} key
 * @param {unknown} what
 */
export function keep(key, what) {
  if (what) drafts.set(key, what);
  else drafts.delete(key);
}

/**
 * @typedef {object} ComposerOptions
 * @property {string} label
 * @property {string} key Under which its draft is kept while another view is open.
 * @property {(text: string) => Promise<void>} send
 * @property {number} [rows]
 * @property {import("./dom.js").Child[]} [beside]
 */

export class Composer {
  form;
  #field;
  #send;
  #key;

  /** @param {ComposerOptions} options */
  constructor({ label, key, send, rows = 1, beside = [] }) {
    this.#key = key;
    this.#field = el("textarea", {
      rows,
      maxlength: 200000,
      "aria-label": label,
      placeholder: label,
      value: draft(key) ?? "",
    });
    this.#send = el("button", { type: "submit", class: "primary" }, "Send");
    this.form = el(
      "form",
      { class: "composer" },
      this.#field,
      el(
        "div",
        { class: "under" },
        ...beside,
        el("span", { class: "hint" }, "Enter to send, Shift+Enter for a line break"),
        this.#send,
      ),
    );
    this.#field.addEventListener("input", () => {
      keep(key, this.#field.value);
      this.#grow();
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.form.requestSubmit();
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(send);
    });
    if (this.#field.value) requestAnimationFrame(() => this.#grow());
  }

  /** @param {(text: string) => Promise<void>} send */
  async #submit(send) {
    const text = this.#field.value;
    if (!text.trim() || this.#send.disabled) return;
    this.#send.disabled = true;
    const done = await tried(async () => {
      await send(text);
      return true;
    });
    this.#send.disabled = false;
    if (done && draft(this.#key) === text) keep(this.#key, "");
    if (done && this.#field.value === text) {
      this.#field.value = "";
      this.#grow();
    }
  }

  #grow() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${Math.min(this.#field.scrollHeight + 2, 260)}px`;
  }

  focus() {
    this.#field.focus();
  }

  /** @param {string} text */
  write(text) {
    this.#field.value = text;
    keep(this.#key, text);
    this.#grow();
    this.#field.focus();
  }

  /**
   * @param {string} verb On the button.
   * @param {string} hint In the empty field.
   */
  label(verb, hint) {
    put(this.#send, verb);
    this.#field.placeholder = hint;
    this.#field.setAttribute("aria-label", hint);
  }
}
