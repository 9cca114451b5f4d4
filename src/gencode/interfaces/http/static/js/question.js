// One waiting question: who wants to do exactly what, why, what would change, and the ways to answer.

import { may } from "./api.js";
import { tell } from "./dialogs.js";
import { diff } from "./diff.js";
import { button, el, exact } from "./dom.js";
import { clock } from "./format.js";
import { mono } from "./messages.js";
import { questions } from "./questions-store.js";
import { tasks } from "./store.js";

const REACHES = {
  call: "only this once",
  agent: "this agent, from now on",
  subtree: "this agent and all below it",
  session: "everything until the server ends",
  always: "always, written into your settings",
};

export function question(asked) {
  const trouble = el("p", { class: "bad", role: "alert", hidden: true });
  const form = el(
    "form",
    { class: "question", "aria-label": labelOf(asked), tabindex: "-1", data: { question: asked.id } },
    el(
      "p",
      { class: "asker" },
      el("span", { class: "sign", "aria-hidden": "true" }, "?"),
      el("a", { href: `#/task/${asked.task}` }, exact(asked.path.join(" › ") || asked.agent)),
      ` ${asked.inquiries.length ? "wants to know" : `wants to use ${exact(asked.tool)}`}`,
    ),
    where(asked),
    ...(asked.inquiries.length ? asked.inquiries.map(inquiry) : exactly(asked)),
    end(asked),
  );
  if (may("answer")) form.append(trouble, answers(asked));
  else form.append(el("p", { class: "faint" }, "This token may look, not answer."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(asked, form, true, trouble);
  });
  form.querySelector("[data-deny]")?.addEventListener("click", () => answer(asked, form, false, trouble));
  return form;
}

function labelOf(asked) {
  return `${asked.agent} ${asked.inquiries.length ? "wants to know something" : `wants to use ${asked.tool}`}`;
}

// The folder in which it would run and, of another process, the machine on which it was asked.
function where(asked) {
  const parts = [
    asked.cwd ? `in ${asked.cwd}` : "",
    asked.place ? `asked by another process on ${asked.place}` : "",
  ].filter(Boolean);
  return parts.length ? el("p", { class: "where" }, exact(parts.join(" · "))) : null;
}

// What counts, and when, if nobody answers.
function end(asked) {
  if (!asked.until) return null;
  const at = clock(Date.parse(asked.until));
  const defaults = asked.inquiries.map((each) => each.default || "nothing is decided").join(" · ");
  return el("p", { class: "faint" }, `Without an answer at ${at}: ${defaults || "no"}`);
}

// The whole call, to the letter, and beside it what it would change.
function exactly(asked) {
  const input = { ...asked.input };
  if (asked.preview) for (const each of ["content", "old_string", "new_string", "edits"]) delete input[each];
  const fields = Object.entries(input).map(([name, value]) => [
    el("dt", {}, exact(name)),
    el("dd", {}, mono(exact(typeof value === "string" ? value : JSON.stringify(value, null, 2)))),
  ]);
  return [
    el("dl", { class: "given" }, fields),
    asked.preview ? diff(exact(asked.preview)) : null,
    asked.preview
      ? el(
          "details",
          { class: "whole" },
          el("summary", {}, "The exact call"),
          mono(exact(JSON.stringify(asked.input, null, 2))),
        )
      : null,
    el(
      "p",
      { class: "why" },
      exact(asked.decision.why),
      asked.decision.rule ? el("span", { class: "faint" }, ` (rule ${exact(asked.decision.rule)})`) : null,
    ),
  ].filter(Boolean);
}

function inquiry(wish, place) {
  const kind = wish.many ? "checkbox" : "radio";
  const options = (wish.options ?? []).map((each) =>
    el(
      "label",
      { class: "option" },
      el("input", { type: kind, name: `choice-${place}`, value: each.label }),
      el(
        "span",
        {},
        el("b", {}, each.label),
        each.description ? el("span", { class: "faint" }, ` ${each.description}`) : null,
      ),
    ),
  );
  return el(
    "fieldset",
    { data: { inquiry: place } },
    el("legend", {}, wish.question),
    options,
    el("input", {
      type: "text",
      name: `words-${place}`,
      "aria-label": "In your own words",
      placeholder: options.length ? "or in your own words" : "your answer",
    }),
  );
}

function answers(asked) {
  const isInquiry = asked.inquiries.length > 0;
  const reach =
    asked.reaches.length > 1 && !isInquiry
      ? el(
          "label",
          { class: "reach" },
          "A yes counts for ",
          el(
            "select",
            { name: "reach" },
            asked.reaches.map((each) => el("option", { value: each }, REACHES[each] ?? each)),
          ),
        )
      : null;
  const rules = reach
    ? el("p", { class: "faint rules" }, `More than once allows: ${exact(asked.rules.join(", "))}`)
    : null;
  const network = asked.network
    ? el(
        "label",
        { class: "option" },
        el("input", { type: "checkbox", name: "network" }),
        el("span", {}, "let this command reach the network"),
      )
    : null;
  const why = el("input", {
    type: "text",
    name: "why",
    maxlength: 200,
    "aria-label": "Why not (the agent reads it)",
    placeholder: "why not (the agent reads it)",
  });
  return el(
    "div",
    { class: "answers" },
    reach,
    rules,
    network,
    el(
      "div",
      { class: "buttons" },
      el("button", { type: "submit", class: "primary" }, isInquiry ? "Answer" : "Allow"),
      button(isInquiry ? "Do not answer" : "Deny", () => {}, { class: "danger", data: { deny: "" } }),
      why,
    ),
  );
}

function wordsOf(form, place) {
  const chosen = [...form.querySelectorAll(`[name=choice-${place}]:checked`)].map((each) => each.value);
  const typed = form.elements[`words-${place}`].value.trim();
  return [...chosen, typed].filter(Boolean).join(", ");
}

async function answer(asked, form, allow, trouble) {
  const fields = form.elements;
  const said = { allow };
  if (!allow) said.why = fields.why.value.trim();
  if (allow && fields.reach) said.reach = fields.reach.value;
  if (allow && fields.network?.checked) said.network = true;
  if (allow && asked.inquiries.length) said.words = asked.inquiries.map((_, place) => wordsOf(form, place));
  if (said.words?.some((each) => !each)) {
    trouble.hidden = false;
    trouble.textContent = "Choose or write an answer to every question.";
    return;
  }
  for (const each of form.querySelectorAll("button")) each.disabled = true;
  form.dataset.answered = "yes";
  try {
    await questions.answer(asked, said);
    tell(`${allow ? "Answered" : "Refused"}: ${tasks.byId.get(asked.task)?.agent ?? asked.agent}`);
  } catch (error) {
    trouble.hidden = false;
    trouble.textContent = error.message;
    delete form.dataset.answered;
    for (const each of form.querySelectorAll("button")) each.disabled = false;
  }
}
