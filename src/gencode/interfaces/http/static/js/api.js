// Requests to the server, and the shapes of its answers. What it refuses is an error with its sentence.

/**
 * @typedef {"view" | "act" | "answer"} Right
 * @typedef {"pending" | "running" | "completed" | "empty" | "limit_reached" | "timed_out" | "failed"
 *   | "cancelled" | "interrupted"} Status
 * @typedef {{ inputTokens: number, outputTokens: number, cachedTokens: number, usd: number | null }} Usage
 *
 * @typedef {object} Health
 * @property {string} workspace
 * @property {string} trusted
 * @property {string} model
 * @property {string} mode
 * @property {Right[]} rights
 * @property {number} questions
 *
 * @typedef {object} TaskState What a task is now, as the server folds it.
 * @property {string} agentId
 * @property {number} seq
 * @property {string | null} parentId
 * @property {string | null} callId
 * @property {string} agent
 * @property {string} title
 * @property {boolean} conversation
 * @property {boolean} background
 * @property {string} cwd
 * @property {Status} status
 * @property {string} step
 * @property {boolean} idle
 * @property {string} model
 * @property {number} turns
 * @property {Usage} usage
 * @property {number | null} queuePosition
 * @property {number | null} stalledSeconds
 * @property {string} createdAt
 * @property {string | null} startedAt
 * @property {string | null} runningSince
 * @property {string | null} endedAt
 * @property {number} workedMs
 *
 * @typedef {"queued" | "working" | "waiting_for_agents" | "waiting_for_person"} Activity
 * @typedef {{ activity: Activity, since: string, until: string | null }} TimeSpan
 * @typedef {{ agentId: string, seq: number, spans: TimeSpan[] }} TaskTimes
 *
 * @typedef {object} Evidence What GenCode saw a task do.
 * @property {number} toolCalls
 * @property {string[]} filesRead
 * @property {{ path: string, sha256: string }[]} filesChanged
 * @property {{ command: string, exit: number | null }[]} commands
 * @property {string[]} warnings
 * @property {{ tool: string, summary: string, why: string }[]} [refused]
 *
 * @typedef {{ agentId: string, agent: string, turns: number, durationMs: number | null, usage: Usage,
 *   evidence: Evidence }} Outcome
 *
 * @typedef {{ id: string, name: string, input?: Record<string, any>, broken?: string }} Call
 * @typedef {object} Trace
 * @property {string[]} [read]
 * @property {{ path: string, sha256: string }[]} [changed]
 * @property {{ command: string, exit: number | null, shell?: string }[]} [commands]
 * @property {string[]} [children]
 * @property {number[]} [lines]
 * @typedef {{ call: string, name?: string, text: string, error?: boolean, trace?: Trace }} Result
 * @typedef {object} Message
 * @property {"user" | "assistant" | "tool"} role
 * @property {string} text
 * @property {string} [sender]
 * @property {number} [mail]
 * @property {string[]} [delivers]
 * @property {{ text: string }[]} [thinking]
 * @property {Call[]} [calls]
 * @property {Result[]} [results]
 * @property {boolean} [partial]
 * @property {string} [model]
 *
 * @typedef {{ action: string, why: string, rule?: string, policy?: string }} Decision
 * @typedef {{ type: string, task: string, seq: number | null, at: string, [field: string]: any }} Fact
 *
 * @typedef {{ question: string, default?: string, many?: boolean,
 *   options?: { label: string, description?: string }[] }} Inquiry
 * @typedef {object} Question
 * @property {number} number
 * @property {string} task
 * @property {string} agent
 * @property {string[]} path
 * @property {string} tool
 * @property {Record<string, any>} input
 * @property {Decision} decision
 * @property {string} preview
 * @property {string[]} rules
 * @property {string[]} reaches
 * @property {boolean} network
 * @property {Inquiry[]} inquiries
 * @property {string} cwd
 * @property {string} place
 * @property {string} until
 *
 * @typedef {{ allow: boolean, reach?: string, why?: string, network?: boolean, words?: string[] }} Answer
 *
 * @typedef {{ message: string, line?: number | null, code?: string }} Warning
 * @typedef {{ path: string, loadable: boolean, warnings: Warning[], why_not?: string }} LintedFile
 * @typedef {object} AgentLine
 * @property {string} name
 * @property {string} description
 * @property {string} source
 * @property {boolean} builtin
 * @property {boolean} project
 * @property {string | null} mode
 * @property {string} shadowedBy
 * @property {string} problem
 * @property {string} untrusted
 * @property {string[]} warnings
 * @property {boolean} hidden
 * @typedef {AgentLine & { usedModel: string, maxTurns: number | null, resolvedTools: string[],
 *   missing: string[], sends: string[] | null, rules: string[], prompt: string }} AgentPage
 * @typedef {{ path: string, text: string, sha256: string, editable: boolean }} AgentFile
 *
 * @typedef {{ turns?: number | null, tokens?: number | null, usd?: number | null, seconds?: number | null,
 *   spawns?: number | null }} Budget
 * @typedef {{ budget: Budget, total: Usage, pieces: { since: string, usage: Usage }[],
 *   tasks: Record<Status, number> }} Spending
 */

export class Refusal extends Error {
  /**
   * @param {number} status The one of the answer; 0 when there was none.
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {unknown} error
 * @returns {string}
 */
export function reason(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 */
async function request(method, path, body) {
  const sent =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  let answer;
  try {
    answer = await fetch(path, { method, cache: "no-store", credentials: "same-origin", ...sent });
  } catch {
    throw new Refusal(0, "The server does not answer.");
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok)
    throw new Refusal(answer.status, told.error || `The server refused this (${answer.status}).`);
  return told;
}

/** @typedef {string | number | boolean | string[] | null | undefined} QueryValue */

/**
 * @param {string} path
 * @param {Record<string, QueryValue>} [query]
 */
export function get(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const each of Array.isArray(value) ? value : [value]) given.append(name, String(each));
  }
  const text = given.toString();
  return request("GET", text ? `${path}?${text}` : path);
}

/** @type {(path: string, body?: object) => Promise<any>} */
export const post = (path, body = {}) => request("POST", path, body);
/** @type {(path: string, body?: object) => Promise<any>} */
export const put = (path, body = {}) => request("PUT", path, body);

/** The name of the search that answers where no model is configured. */
export const OFFLINE = "offline-search";

// What this token may do; filled by the first answer of the server.
export const me = {
  /** @type {Set<Right>} */
  rights: new Set(),
  /** @type {Health} */
  health: { workspace: "/", trusted: "", model: "", mode: "default", rights: [], questions: 0 },
};

/** @param {Right[]} rights */
export function may(...rights) {
  return rights.every((each) => me.rights.has(each));
}

// The name of the folder that the server works in.
export function folderName() {
  return me.health.workspace.split("/").filter(Boolean).at(-1) ?? "/";
}

export async function introduce() {
  me.health = /** @type {Health} */ (await get("/api/health"));
  me.rights = new Set(me.health.rights);
  return me.health;
}

/**
 * @param {string} id
 * @param {string} [rest]
 */
export const task = (id, rest = "") => `/api/tasks/${encodeURIComponent(id)}${rest}`;
