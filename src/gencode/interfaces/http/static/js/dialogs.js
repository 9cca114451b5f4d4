// Dialogs: something is said before anything is done, and a refusal stays in sight.

import { el, button } from "./dom.js";

const aloud = () => document.getElementById("aloud");

const MOST = 2;

// A line for everybody, also for those who hear the page. A newer one about the same takes its place.
export function tell(text, bad = false, { seconds = bad ? 9 : 5, about = text } = {}) {
  untell(about);
  const shown = el("p", { class: bad ? "toast bad" : "toast", data: { about } }, text);
  aloud().append(shown);
  while (aloud().children.length > MOST) aloud().firstChild.remove();
  setTimeout(() => shown.remove(), 1000 * seconds);
}

// Takes a line back whose reason is gone.
export function untell(about) {
  for (const each of [...aloud().children]) if (each.dataset.about === about) each.remove();
}

export async function tried(act) {
  try {
    return await act();
  } catch (error) {
    tell(error.message, true, error.status === 0 ? { about: "line" } : {});
    return undefined;
  }
}

// Asks before `act`; `body` says what will happen. `danger` colours the button.
export function dialog({ title, body = [], confirm, act, danger = false, ready = null }) {
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
      trouble.textContent = error.message;
      yes.disabled = false;
    }
  });
  shown.addEventListener("close", () => shown.remove());
  document.body.append(shown);
  shown.showModal();
  ready?.(yes);
  return shown;
}
