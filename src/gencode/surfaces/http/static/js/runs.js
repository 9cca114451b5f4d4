// When a task worked: its facts tell where each of its runs began and ended.

const ENDS = new Set(["SubSessionCompleted", "SubSessionFailed", "SubSessionCancelled"]);

// Pairs of a beginning and an end; the end of a run that goes on is null.
export function runsOf(events) {
  const runs = [];
  for (const { type, at } of events) {
    const last = runs.at(-1);
    if (type === "SubSessionStatusChanged") runs.push([Date.parse(at), null]);
    else if (ENDS.has(type) && last) last[1] ??= Date.parse(at);
  }
  return runs;
}

export function lengthOf(runs) {
  return runs.reduce((sum, [from, to]) => sum + (to === null ? 0 : to - from), 0);
}
