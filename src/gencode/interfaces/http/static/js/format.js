// Numbers and times as people read them.

/** @typedef {import("./api.js").Status} Status */

/** @type {Set<Status>} */
export const ACTIVE = new Set(["pending", "running"]);
/** @type {Record<Status, string>} */
export const WORDS = {
  pending: "queued",
  running: "running",
  completed: "done",
  empty: "no answer",
  limit_reached: "limit reached",
  timed_out: "timed out",
  failed: "failed",
  cancelled: "stopped",
  interrupted: "interrupted",
};

/** @param {number} number */
export function count(number) {
  if (number < 1000) return String(number);
  if (number < 100_000) return `${(number / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (number < 1_000_000) return `${Math.round(number / 1000)}k`;
  return `${(number / 1_000_000).toFixed(number < 10_000_000 ? 2 : 1)}M`;
}

/** @param {number | null | undefined} usd */
export function money(usd) {
  if (usd === null || usd === undefined) return "";
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return "";
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${String(seconds % 60).padStart(2, "0")} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}:${String(minutes % 60).padStart(2, "0")} h`;
  return `${Math.floor(hours / 24)} d`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const SHORT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** @param {number} at */
export function clock(at) {
  return at ? CLOCK.format(at) : "";
}

/** @param {number} at */
export function moment(at) {
  const time = new Date(at);
  const today = time.toDateString() === new Date().toDateString();
  return today ? SHORT.format(time) : `${DAY.format(time)}, ${SHORT.format(time)}`;
}

/** @param {number} at */
export function ago(at) {
  const seconds = Math.max(0, Math.round((Date.now() - at) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return moment(at);
}

/**
 * @param {number} number
 * @param {string} one
 */
export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/**
 * @param {number} running
 * @param {number} pending
 */
export function atWork(running, pending) {
  const working = running ? `${plural(running, "agent")} running` : "No agents running";
  return pending ? `${working}, ${pending.toLocaleString("en")} queued` : working;
}

/** @param {import("./api.js").Usage} usage */
export function tokens(usage) {
  return usage.inputTokens + usage.outputTokens;
}
