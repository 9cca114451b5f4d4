// The dialog that takes a conversation, the files that its agents changed, or both back to an earlier prompt.

import { get, may, me, post, reason, task as at } from "./api.js";
import { dialog, notify } from "./dialogs.js";
import { el, line } from "./dom.js";
import { moment, plural } from "./format.js";
import { tasks } from "./task-store.js";

/** @typedef {import("./task-store.js").Task} Task */
/** @typedef {{ to: number, at: string, prompt: string, undo: boolean, files: number }} Point */
/** @typedef {{ path: string, does: "restore" | "create" | "delete", state: "ready" | "changed" | "lost" | "blocked",
 *   added: number | null, removed: number | null }} RewindFile */
/** @typedef {{ point: Point, messages: number, files: RewindFile[], commands: string[],
 *   elsewhere: { id: string, agent: string }[] }} Preview */

const MOST = 100;
const DOES = { restore: "restore", create: "bring back", delete: "delete" };
const STATES = {
  ready: "",
  changed: "changed since by you or another program",
  lost: "cannot be restored: its content was not kept",
  blocked: "cannot be restored: a link, a folder or a very large file is there now",
};

/**
 * @param {Task} task
 * @param {(prompt: string) => void} done Gets the prompt that was taken back.
 * @param {number} [to] The prompt that is chosen at first.
 */
export async function rewind(task, done, to) {
  /** @type {Point[]} */
  const points = (await get(at(task.id, "/prompts"))).points.toReversed();
  if (!points.length) {
    notify("There is no earlier prompt.");
    return;
  }
  const where = el(
    "select",
    { name: "to", "aria-label": "Go back to before" },
    points.map((each) => el("option", { value: String(each.to) }, label(each))),
  );
  if (points.some((each) => each.to === to)) where.value = String(to);
  const what = el(
    "select",
    { name: "what", "aria-label": "What goes back" },
    el("option", { value: "both" }, "Conversation and files"),
    el("option", { value: "conversation" }, "Conversation only"),
    el("option", { value: "files" }, "Files only"),
  );
  const overwrite = el("input", { type: "checkbox", name: "overwrite" });
  const asked = el("label", { class: "option", hidden: true }, overwrite, el("span", {}, "Restore files that were changed since, too"));
  const preview = el("div", { class: "rewind", "aria-live": "polite" });
  /** @type {Preview | null} */
  let shown = null;
  dialog({
    title: "Go back to an earlier prompt",
    confirm: "Rewind",
    danger: true,
    body: [el("label", { class: "field" }, "Go back to before", where), preview, asked, el("label", { class: "field" }, "Take back", what)],
    ready: (yes) => {
      const draw = async () => {
        yes.disabled = true;
        shown = null;
        preview.replaceChildren(el("p", { class: "faint" }, "Checking what this changes…"));
        try {
          /** @type {Preview} */
          const found = await get(at(task.id, "/rewind"), { to: where.value });
          if (String(found.point.to) !== where.value) return;
          shown = found;
          preview.replaceChildren(...said(found));
          asked.hidden = !found.files.some((each) => each.state === "changed");
          yes.disabled = !may("answer");
        } catch (error) {
          preview.replaceChildren(el("p", { class: "bad" }, reason(error)));
        }
      };
      where.addEventListener("change", draw);
      void draw();
    },
    act: async () => {
      const gone = await post(at(task.id, "/rewind"), {
        to: Number(where.value),
        conversation: what.value !== "files",
        files: what.value !== "conversation",
        overwrite: overwrite.checked,
      });
      const parts = [
        gone.conversation ? "Conversation rewound." : "",
        gone.restored.length ? `${plural(gone.restored.length, "file")} put back.` : "",
        gone.left.length ? `${plural(gone.left.length, "file")} left as they are.` : "",
        ...gone.problems,
      ];
      notify(parts.filter(Boolean).join(" ") || "Nothing was changed.", gone.problems.length > 0);
      tasks.renew(task.id);
      done(gone.conversation && shown ? shown.point.prompt : "");
    },
  });
}

/** @param {Point} point */
function label(point) {
  const time = moment(Date.parse(point.at));
  if (point.undo) return `${time}  Undo the rewind`;
  return `${time}  ${line(point.prompt, 70)}${point.files ? `  (${plural(point.files, "file")})` : ""}`;
}

/** @param {Preview} preview */
function said(preview) {
  const files = preview.files.slice(0, MOST).map((each) => el("li", { data: { state: each.state } }, ...file(each)));
  if (preview.files.length > MOST) files.push(el("li", { class: "faint" }, `and ${preview.files.length - MOST} more`));
  const parts = [
    el("p", {}, `${plural(preview.messages, "message")} of the conversation, ${plural(preview.files.length, "file")}`),
    el("ul", { class: "rewindfiles" }, files),
  ];
  if (preview.commands.length)
    parts.push(
      el("p", { class: "faint" }, "Not undone: what these commands did to files that no agent had read"),
      el("ul", { class: "rewindfiles faint" }, preview.commands.slice(0, 10).map((each) => el("li", {}, line(each, 100)))),
    );
  if (preview.elsewhere.length)
    parts.push(
      el("p", { class: "faint" }, `Not undone: ${plural(preview.elsewhere.length, "agent")} in a worktree or on another machine`),
    );
  return parts;
}

/** @param {RewindFile} each */
function file(each) {
  const lines =
    each.added === null
      ? [el("span", { class: "faint" }, "binary")]
      : [el("span", { class: "good" }, `+${each.added}`), " ", el("span", { class: "bad" }, `-${each.removed}`)];
  const touched = each.state === "ready" || each.state === "changed";
  return [
    el("code", {}, each.path.startsWith(`${me.health.workspace}/`) ? each.path.slice(me.health.workspace.length + 1) : each.path),
    " ",
    ...(touched ? [`${DOES[each.does]} `, ...lines] : []),
    STATES[each.state] ? el("span", { class: "warning" }, ` ${STATES[each.state]}`) : null,
  ];
}
