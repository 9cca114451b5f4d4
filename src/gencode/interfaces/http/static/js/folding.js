// A receipt as of an earlier end of a task, from its facts: what it did later does not count there.

import { get, task as at } from "./api.js";

const PAGE = 500;
const MOST = 10_000;
const ENDS = new Set(["SubSessionCompleted", "SubSessionFailed", "SubSessionCancelled"]);
const known = new Map();

// The figures of a task at its fact `seq`, which is an end; null where there are too many facts before it.
export async function asOf(id, seq) {
  if (seq > MOST) return null;
  const folded = known.get(id) ?? { ends: new Map(), state: beginning(), last: 0, reading: null };
  known.set(id, folded);
  while (!folded.ends.has(seq)) {
    folded.reading ??= more(id, folded).finally(() => {
      folded.reading = null;
    });
    if (!(await folded.reading)) return null;
  }
  return folded.ends.get(seq);
}

async function more(id, folded) {
  const { events } = await get(at(id, "/events"), { after: folded.last, limit: PAGE });
  for (const event of events) {
    folded.last = event.seq;
    take(folded.state, event);
    if (ENDS.has(event.type)) folded.ends.set(event.seq, structuredClone(folded.state));
  }
  return events.length > 0;
}

function beginning() {
  return {
    turns: 0,
    worked: 0,
    since: null,
    touched: null,
    usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0, usd: null },
    evidence: { toolCalls: 0, filesRead: [], filesChanged: [], commands: [], warnings: [], refused: [] },
  };
}

function take(state, event) {
  const now = Date.parse(event.at);
  const { evidence } = state;
  if (event.type === "SubSessionStatusChanged") state.since = now;
  else if (event.type === "MessageAdded") message(state, event.message);
  else if (event.type === "TranscriptCompacted") use(state, event.usage);
  else if (event.type === "CallDecided" && event.decision.action === "deny") {
    const { call, tool, target: summary = "", decision } = event;
    const refused = { tool, summary, by: decision.by ?? "rules", call };
    const known = evidence.refused.some((each) => Object.keys(refused).every((key) => each[key] === refused[key]));
    if (!known) evidence.refused.push({ ...refused, why: decision.why });
  } else if (ENDS.has(event.type) && state.since !== null) {
    state.worked += (event.status === "interrupted" ? state.touched : now) - state.since;
    state.since = null;
  }
  state.touched = now;
}

function message(state, { role, calls = [], results = [], usage, again }) {
  const { evidence } = state;
  if (role === "assistant") {
    state.turns += again ? 0 : 1;
    evidence.toolCalls += calls.length;
    use(state, usage);
  }
  for (const { trace = {} } of role === "tool" ? results : []) {
    for (const path of trace.read ?? [])
      if (!evidence.filesRead.includes(path)) evidence.filesRead.push(path);
    for (const change of trace.changed ?? []) {
      const place = evidence.filesChanged.findIndex((each) => each.path === change.path);
      if (place < 0) evidence.filesChanged.push(change);
      else evidence.filesChanged[place] = change;
    }
    evidence.commands.push(...(trace.commands ?? []));
  }
}

function use({ usage }, more) {
  if (!more) return;
  for (const name of ["inputTokens", "outputTokens", "cachedTokens"]) usage[name] += more[name] ?? 0;
  if (more.usd !== null && more.usd !== undefined) usage.usd = (usage.usd ?? 0) + more.usd;
}
