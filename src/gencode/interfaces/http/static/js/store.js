// All tasks the page knows of: what the lists say, kept up to date by the facts of the stream.

import { get, me, task as at } from "./api.js";
import { framed, line } from "./dom.js";
import { ACTIVE } from "./format.js";
import { lengthOf, runsOf, Waits } from "./runs.js";

const PAGE = 500;
const LAST = 2 ** 53;
const RUNS = 200;
const MOST = 5000;
const FEW = 8;
const FEW_MS = 120;
const MANY_MS = 1500;
const LETTERS = 50;
const when = (text) => (text ? Date.parse(text) : null);

class Tasks extends EventTarget {
  byId = new Map();
  conversations = new Map();
  complete = false;
  // Counts every change of which tasks there are and how they are; what they do is not counted.
  shape = 0;
  // What was said to tasks and not heard yet, as far as this page said it.
  letters = new Map();
  #below = new Map();
  #totals = new Map();
  #changed = new Set();
  #stale = new Set();
  #timer = 0;
  #learning = 0;
  #many = false;
  #loaded = false;
  #tell = framed(() => {
    const changed = this.#changed;
    this.#changed = new Set();
    this.#totals.clear();
    this.dispatchEvent(new CustomEvent("change", { detail: changed }));
  });

  // Reads the lists anew; gives the place at which the stream has to begin.
  async load() {
    const first = await get("/api/tasks", { limit: PAGE });
    this.byId.clear();
    this.#below.clear();
    for (const each of first.tasks) this.take(each);
    this.complete = first.next === null;
    if (first.next) this.#loadMore(first.next);
    await this.learnConversations();
    this.#loaded = true;
    return first.cursor;
  }

  async #loadMore(before) {
    let next = before;
    while (next && this.byId.size < MOST) {
      const page = await get("/api/tasks", { limit: PAGE, before: next }).catch(() => null);
      if (!page) return;
      for (const each of page.tasks) if (!this.byId.has(each.agentId)) this.take(each);
      next = page.next;
    }
    this.complete = !next;
    this.#tell();
  }

  async learnConversations() {
    const page = await get("/api/conversations", { limit: PAGE });
    for (const { address, session } of page.conversations) {
      if (!this.conversations.has(session.agentId)) this.#changed.add(session.agentId);
      this.conversations.set(session.agentId, address);
    }
    this.#tell();
  }

  #learnSoon() {
    this.#learning ||= setTimeout(() => {
      this.#learning = 0;
      this.learnConversations().catch(() => {});
    }, 100);
  }

  // One task as the server tells it.
  take(told) {
    const known = this.byId.get(told.agentId);
    if (known && (known.status !== told.status || known.background !== told.background)) this.shape += 1;
    const task = known ?? { id: told.agentId, step: "", seq: 0, usage: null };
    const fork = told.forkedFrom ? `fork of ${told.forkedFrom}: ` : "";
    Object.assign(task, {
      parent: told.parentId,
      agent: told.agent,
      title: line(fork + (told.description || told.prompt), 160),
      prompt: told.prompt,
      status: told.status,
      model: told.model,
      turns: told.turns,
      cwd: told.cwd,
      background: told.background,
      queue: told.queuePosition ?? null,
      silent: told.stalledSeconds ? silence(told.stalledSeconds) : "",
      error: told.error,
      worked: told.durationMs,
      created: when(told.createdAt),
      started: when(told.startedAt),
      ended: when(told.endedAt),
      evidence: told.evidence,
      toldEnd: told.endedAt ?? null,
    });
    const { inputTokens, outputTokens, cachedTokens, usd, tree } = told.usage;
    task.usage = { inputTokens, outputTokens, cachedTokens, usd };
    task.tree = tree;
    if (!ACTIVE.has(task.status)) task.step = line(told.error || told.result, 160);
    if (task.status !== "running") task.since = null;
    task.step ||= task.silent;
    this.#keep(task);
    return task;
  }

  #keep(task) {
    if (!this.byId.has(task.id)) {
      this.shape += 1;
      this.byId.set(task.id, task);
      if (!task.parent && this.#loaded) this.#learnSoon();
      const below = this.#below.get(task.parent ?? "") ?? [];
      below.push(task);
      this.#below.set(task.parent ?? "", below);
    }
    this.touch(task.id);
  }

  touch(id) {
    this.#changed.add(id);
    this.#tell();
  }

  write(id, text) {
    const letter = { text, after: this.byId.get(id)?.seq ?? 0 };
    this.letters.set(id, [...(this.letters.get(id) ?? []), letter].slice(-LETTERS));
    this.touch(id);
    return letter;
  }

  // The oldest such letter does not wait any more.
  heard(id, text, seq = LAST) {
    const waiting = this.letters.get(id) ?? [];
    const place = waiting.findIndex((each) => seq > each.after && each.text.trim() === text.trim());
    if (place < 0) return;
    this.letters.set(id, waiting.toSpliced(place, 1));
    this.touch(id);
  }

  below(id) {
    const found = this.#below.get(id) ?? [];
    return found.sort((one, other) => one.created - other.created);
  }

  // Tasks that nobody on the page asked for, the newest first.
  roots() {
    const found = [...(this.#below.get("") ?? [])];
    for (const [parent, tasks] of this.#below) if (parent && !this.byId.has(parent)) found.push(...tasks);
    return found.sort((one, other) => other.created - one.created);
  }

  isConversation(task) {
    return this.conversations.has(task.id);
  }

  // What a task and everything below it used, and how many of those are at work.
  total(task) {
    const known = this.#totals.get(task.id);
    if (known) return known;
    const sum = { tokens: 0, usd: null, running: 0, pending: 0, active: 0, tasks: 0 };
    this.#totals.set(task.id, sum);
    const own = task.usage;
    sum.tokens = own.inputTokens + own.outputTokens;
    sum.usd = own.usd;
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

  // For how long it worked; what lies between two turns of a conversation is no work.
  elapsed(task, now = Date.now()) {
    if (task.status === "running" && task.since) return (task.before ?? 0) + now - task.since;
    if (task.status === "running" && task.started) {
      if (this.isConversation(task)) this.learnRuns(task);
      return now - task.started;
    }
    if (task.status === "pending" && !task.turns) return now - task.created;
    return task.worked;
  }

  // When a task worked and waited, of which the lists only tell the first beginning and the last end.
  async learnRuns(task) {
    if (task.learning) return;
    task.learning = true;
    const page = await get(at(task.id, "/events"), { before: LAST, limit: RUNS }).catch(() => null);
    if (!page) return;
    task.learning = false;
    task.waits = new Waits(page.events);
    this.touch(task.id);
    if (!this.isConversation(task)) return; // of others the lists tell enough
    task.runs = runsOf(page.events);
    const last = task.runs.at(-1);
    if (task.status === "running" && last && last[1] === null) {
      task.since = last[0];
      task.before = lengthOf(task.runs.slice(0, -1));
    }
  }

  // A fact of the stream.
  apply(event) {
    const task = this.byId.get(event.task);
    if (!task) {
      this.#meet(event);
      return;
    }
    if (event.seq !== null && event.seq <= task.seq) return;
    if (event.seq !== null) task.seq = event.seq;
    const { status } = task;
    this.#heard(task, event);
    task.waits?.hear(event);
    if (task.status !== status) this.shape += 1;
    this.touch(task.id);
  }

  #meet(event) {
    const parent = event.parentSessionId ?? null;
    if (event.type === "SubSessionCreated" && parent && this.byId.has(parent)) {
      const none = { inputTokens: 0, outputTokens: 0, cachedTokens: 0, usd: null };
      const nothing = {
        toolCalls: 0,
        filesRead: [],
        filesChanged: [],
        commands: [],
        children: [],
        warnings: [],
      };
      this.take({
        agentId: event.task,
        parentId: parent,
        agent: event.agentType,
        description: event.description,
        prompt: event.prompt,
        status: "pending",
        model: "",
        turns: 0,
        background: false,
        error: null,
        result: "",
        createdAt: event.at,
        usage: { ...none, tree: none },
        evidence: nothing,
        durationMs: null,
        cwd: me.health.workspace,
      }).seq = event.seq;
      this.renew(event.task);
    } else if (event.seq !== null) {
      this.renew(event.task);
    }
  }

  #heard(task, event) {
    switch (event.type) {
      case "SubSessionStatusChanged":
        Object.assign(task, {
          status: "running",
          model: event.model || task.model,
          started: task.started ?? when(event.at),
          since: when(event.at),
          before: task.worked ?? 0,
          ended: null,
          queue: null,
          step: "",
        });
        task.runs?.push([task.since, null]);
        break;
      case "TaskQueued":
        Object.assign(task, { status: "pending", error: null, ended: null, queue: null, step: "" });
        break;
      case "SubSessionProgress":
        this.#progressed(task, event);
        break;
      case "MessageAdded":
        this.#said(task, event.message);
        break;
      case "QueueMoved":
        Object.assign(task, { queue: event.position, silent: "" });
        break;
      case "TaskBackgrounded":
        task.background = true;
        break;
      case "TaskStalled":
        task.step = task.silent = silence(event.seconds);
        break;
      case "SubSessionCompleted":
      case "SubSessionFailed":
      case "SubSessionCancelled":
        Object.assign(task, { status: event.status, error: event.error, ended: when(event.at), queue: null });
        this.#rests(task);
        task.step = line(event.error || event.result, 160);
        this.renew(task.id);
        break;
      default:
    }
  }

  #rests(task) {
    const began = task.since ?? task.started;
    task.worked = began ? (task.since ? (task.before ?? 0) : 0) + task.ended - began : null;
    task.since = null;
    const run = task.runs?.at(-1);
    if (run) run[1] ??= task.ended;
  }

  #progressed(task, { partType, content }) {
    if (partType === "result" || partType === "error") return;
    if (partType === "text") task.step = line(`${task.spoken ?? ""}${content}`.slice(-160), 160);
    task.spoken = partType === "text" ? `${task.spoken ?? ""}${content}`.slice(-160) : "";
    if (partType === "thinking") task.step = "thinking…";
    else if (partType !== "text" && content) task.step = line(content, 160);
  }

  // The figures are asked for: what a list told may already count what the stream tells after it.
  #said(task, message) {
    task.spoken = "";
    if (message.role === "assistant") {
      if (message.calls?.length) task.step = line(named(message.calls), 160);
      else if (message.text) task.step = line(message.text, 160);
      this.renew(task.id);
    } else if (message.role === "tool") {
      task.step = "thinking…";
    } else if (message.role === "user" && message.mail) {
      task.step = line(`heard: ${message.text}`, 160);
    }
  }

  // Asks for tasks that changed in ways a fact does not tell, a little later and all at once.
  renew(id) {
    this.#stale.add(id);
    this.#timer ||= setTimeout(
      () => this.#renewed(),
      this.#stale.size > FEW || this.#many ? MANY_MS : FEW_MS,
    );
  }

  async #renewed() {
    const stale = this.#stale;
    this.#stale = new Set();
    this.#many = stale.size > FEW;
    if (this.#many) {
      const page = await get("/api/tasks", { limit: PAGE }).catch(() => null);
      for (const each of page?.tasks ?? []) if (stale.delete(each.agentId)) this.#met(each);
    }
    await Promise.all(
      [...stale].slice(0, FEW).map(async (id) => {
        stale.delete(id);
        const told = await get(at(id)).catch(() => null);
        if (told) this.#met(told);
      }),
    );
    this.#timer = 0;
    for (const id of [...stale, ...this.#stale]) this.renew(id);
  }

  #met(told) {
    const known = this.byId.has(told.agentId);
    if (!known && told.cwd !== me.health.workspace && !this.byId.has(told.parentId)) return;
    this.take(told);
  }
}

function silence(seconds) {
  return `no sign of life for ${Math.round(seconds)} s`;
}

function named(calls) {
  const counts = new Map();
  for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, number]) => (number > 1 ? `${name} ×${number}` : name)).join(", ");
}

export const tasks = new Tasks();
