// Dialogs that say what will happen before it does, and notifications.

import { reason, Refusal } from "./api.js";
import { button, byId, el } from "./dom.js";

const MOST = 2;

/**
 * A notification, also for those who hear the page. A newer one about the same takes its place.
 * @param {string} text
 * @param {boolean} [bad]
 * @param {{ seconds?: number, about?: string }} [options]
 */
export function notify(text, bad = false, { seconds = bad ? 9 : 5, about = text } = {}) {
  dismiss(about);
  const place = byId("aloud");
  const shown = el("p", { class: bad ? "toast bad" : "toast", data: { about } }, text);
  place.append(shown);
  while (place.children.length > MOST) place.firstChild?.remove();
  setTimeout(() => shown.remove(), 1000 * seconds);
}

/**
 * Takes a notification back whose reason is gone.
 * @param {string} about
 */
export function dismiss(about) {
  for (const each of byId("aloud").querySelectorAll("p")) if (each.dataset.about === about) each.remove();
}

/**
 * What an action gives; undefined where it failed, which is shown.
 * @template T
 * @param {() => Promise<T>} action
 * @returns {Promise<T | undefined>}
 */
export async function tried(action) {
  try {
    return await action();
  } catch (error) {
    const lost = error instanceof Refusal && error.status === 0;
    notify(reason(error), true, lost ? { about: "connection" } : {});
    return undefined;
  }
}

/**
 * @typedef {object} DialogOptions
 * @property {string} title
 * @property {string} confirm The label of the button that acts.
 * @property {(form: HTMLFormElement) => unknown} act
 * @property {import("./dom.js").Child[]} [body] Says what will happen.
 * @property {boolean} [danger]
 * @property {(yes: HTMLButtonElement) => void} [ready]
 */

/** @param {DialogOptions} options */
export function dialog({ title, confirm, act, body = [], danger = false, ready }) {
  const trouble = el("p", { class: "bad", role: "alert", hidden: true });
  const yes = el("button", { type: "submit", class: danger ? "primary danger" : "primary" }, confirm);
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", {}, title),
    ...body,
    trouble,
    el(
      "div",
      { class: "buttons" },
      button("Cancel", () => shown.close(), { class: "quiet" }),
      yes,
    ),
  );
  const shown = el("dialog", { "aria-label": title }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    try {
      await act(form);
      shown.close();
    } catch (error) {
      trouble.hidden = false;
      trouble.textContent = reason(error);
      yes.disabled = false;
    }
  });
  shown.addEventListener("close", () => shown.remove());
  document.body.append(shown);
  shown.showModal();
  ready?.(yes);
  return shown;
}
