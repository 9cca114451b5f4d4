// All tasks the page knows of, as the server tells their states: they are placed and counted here, not folded.

import { get, me } from "./api.js";
import { framed, line } from "./dom.js";
import { Signal } from "./signal.js";

/** @typedef {import("./api.js").Status} Status */
/** @typedef {import("./api.js").TaskState} TaskState */
/** @typedef {import("./api.js").Usage} Usage */

/**
 * @typedef {object} Task A state with times as numbers.
 * @property {string} id
 * @property {number} seq
 * @property {string | null} parent
 * @property {string | null} call
 * @property {string} agent
 * @property {string} title
 * @property {boolean} conversation
 * @property {boolean} background
 * @property {Status} status
 * @property {string} step
 * @property {boolean} idle
 * @property {string} model
 * @property {number} turns
 * @property {Usage} usage
 * @property {number | null} queue
 * @property {number | null} stalled
 * @property {number} created
 * @property {number | null} started
 * @property {number | null} since
 * @property {number | null} ended
 * @property {number} worked
 *
 * @typedef {{ tokens: number, usd: number | null, running: number, pending: number, active: number,
 *   tasks: number }} Total
 * @typedef {{ text: string, after: number }} Letter
 */

const PAGE = 500;
const LAST = 2 ** 53;
const MOST = 5000;
const MOST_IDS = 90;
const SOON_MS = 120;
const LETTERS = 50;
/** @param {string | null} text */
const when = (text) => (text ? Date.parse(text) : null);

class TaskStore {
  /** @type {Map<string, Task>} */
  byId = new Map();
  complete = false;
  // Counts every change of which tasks there are and of their status; what they do is not counted.
  shape = 0;
  /** @type {Signal<Set<string>>} */
  changed = new Signal();
  /**
   * What was sent to tasks and not read yet, as far as this page sent it.
   * @type {Map<string, Letter[]>}
   */
  letters = new Map();
  /** @type {Map<string, Task[]>} */
  #below = new Map();
  /** @type {Map<string, Total>} */
  #totals = new Map();
  /** @type {Set<string>} */
  #changed = new Set();
  /** @type {Set<string>} */
  #stale = new Set();
  #timer = 0;
  #tell = framed(() => {
    const changed = this.#changed;
    this.#changed = new Set();
    this.#totals.clear();
    this.changed.send(changed);
  });

  // Reads the states anew; gives the place at which the stream has to begin.
  async load() {
    const first = await get("/api/states", { limit: PAGE });
    this.byId.clear();
    this.#below.clear();
    for (const each of first.states) this.take(each);
    this.complete = first.next === null;
    if (first.next) this.#loadMore(first.next);
    return /** @type {string} */ (first.cursor);
  }

  /** @param {string} before */
  async #loadMore(before) {
    /** @type {string | null} */
    let next = before;
    while (next && this.byId.size < MOST) {
      /** @type {{ states: TaskState[], next: string | null } | null} */
      const page = await get("/api/states", { limit: PAGE, before: next }).catch(() => null);
      if (!page) return;
      for (const each of page.states) this.take(each);
      next = page.next;
    }
    this.complete = !next;
    this.#tell();
  }

  /**
   * States of the stream: those of this folder, and of what belongs to its tasks.
   * @param {TaskState[]} states
   */
  hear(states) {
    for (const each of states) if (this.#belongs(each)) this.take(each);
  }

  /** @param {TaskState} state */
  #belongs({ agentId, cwd, parentId }) {
    return this.byId.has(agentId) || cwd === me.health.workspace || this.byId.has(parentId ?? "");
  }

  /**
   * One task as the server tells it; what it told before does not take the place of something newer.
   * @param {TaskState} state
   * @returns {Task}
   */
  take(state) {
    const known = this.byId.get(state.agentId);
    if (known && known.seq > state.seq) return known;
    const told = taskOf(state);
    if (known && (known.status !== told.status || known.background !== told.background)) this.shape += 1;
    const task = known ? Object.assign(known, told) : told;
    if (!known) this.#add(task);
    this.#touch(task.id);
    return task;
  }

  /** @param {Task} task */
  #add(task) {
    this.shape += 1;
    this.byId.set(task.id, task);
    const below = this.#below.get(task.parent ?? "") ?? [];
    below.push(task);
    this.#below.set(task.parent ?? "", below);
  }

  /** @param {string} id */
  #touch(id) {
    this.#changed.add(id);
    this.#tell();
  }

  /**
   * @param {string} id
   * @param {string} text
   */
  write(id, text) {
    const letter = { text, after: this.byId.get(id)?.seq ?? 0 };
    this.letters.set(id, [...(this.letters.get(id) ?? []), letter].slice(-LETTERS));
    this.#touch(id);
    return letter;
  }

  /**
   * The oldest such message was read.
   * @param {string} id
   * @param {string} text
   */
  read(id, text, seq = LAST) {
    const waiting = this.letters.get(id) ?? [];
    const place = waiting.findIndex((each) => seq > each.after && each.text.trim() === text.trim());
    if (place < 0) return;
    this.letters.set(id, waiting.toSpliced(place, 1));
    this.#touch(id);
  }

  /** @param {string} id */
  below(id) {
    const found = this.#below.get(id) ?? [];
    return found.sort((one, other) => one.created - other.created);
  }

  // Tasks whose parent the page does not know, the newest first.
  roots() {
    const found = [...(this.#below.get("") ?? [])];
    for (const [parent, tasks] of this.#below) if (parent && !this.byId.has(parent)) found.push(...tasks);
    return found.sort((one, other) => other.created - one.created);
  }

  /** @param {Task} task */
  parentOf(task) {
    return task.parent === null ? undefined : this.byId.get(task.parent);
  }

  /**
   * Whether a task is another one or below it.
   * @param {string} id
   * @param {string} root
   */
  isWithin(id, root) {
    /** @type {string | null | undefined} */
    let each = id;
    for (; each; each = this.byId.get(each)?.parent) if (each === root) return true;
    return false;
  }

  /**
   * What a task and everything below it used, and how many of those are at work.
   * @param {Task} task
   * @returns {Total}
   */
  total(task) {
    const known = this.#totals.get(task.id);
    if (known) return known;
    const own = task.usage;
    const tokens = own.inputTokens + own.outputTokens;
    const sum = { tokens, usd: own.usd, running: 0, pending: 0, active: 0, tasks: 0 };
    this.#totals.set(task.id, sum);
    for (const child of this.#below.get(task.id) ?? []) {
      const theirs = this.total(child);
      sum.tokens += theirs.tokens;
      if (theirs.usd !== null) sum.usd = (sum.usd ?? 0) + theirs.usd;
      sum.running += theirs.running + (child.status === "running" ? 1 : 0);
      sum.pending += theirs.pending + (child.status === "pending" ? 1 : 0);
      sum.active = sum.running + sum.pending;
      sum.tasks += theirs.tasks + 1;
    }
    return sum;
  }

  /**
   * For how many milliseconds it has worked, or waits to begin; the time between two turns is not counted.
   * @param {Task} task
   */
  elapsed(task, now = Date.now()) {
    if (task.status === "running" && task.since !== null) return task.worked + now - task.since;
    if (task.status === "pending" && !task.turns) return now - task.created;
    return task.started === null ? null : task.worked;
  }

  /**
   * Asks for the states of these tasks now.
   * @param {string[]} ids
   */
  async ask(ids) {
    const told = await get("/api/states", { id: ids });
    return /** @type {Task[]} */ (told.states.map((/** @type {TaskState} */ each) => this.take(each)));
  }

  /**
   * Asks for a task that may have changed without a fact that says so, a little later.
   * @param {string} id
   */
  renew(id) {
    this.#stale.add(id);
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      const stale = [...this.#stale].slice(0, MOST_IDS);
      this.#stale.clear();
      this.#timer = 0;
      this.ask(stale).catch(() => {});
    }, SOON_MS);
  }
}

/**
 * @param {TaskState} state
 * @returns {Task}
 */
function taskOf(state) {
  return {
    id: state.agentId,
    seq: state.seq,
    parent: state.parentId,
    call: state.callId,
    agent: state.agent,
    title: line(state.title, 160),
    conversation: state.conversation,
    background: state.background,
    status: state.status,
    step: line(state.step, 160),
    idle: state.idle,
    model: state.model,
    turns: state.turns,
    usage: state.usage,
    queue: state.queuePosition,
    stalled: state.stalledSeconds,
    created: Date.parse(state.createdAt),
    started: when(state.startedAt),
    since: when(state.runningSince),
    ended: when(state.endedAt),
    worked: state.workedMs,
  };
}

export const tasks = new TaskStore();
