// Numbers and times as people read them.

export const ACTIVE = new Set(["pending", "running"]);
export const WORDS = {
  pending: "waiting",
  running: "running",
  completed: "done",
  empty: "empty",
  limit_reached: "limit reached",
  timed_out: "timed out",
  failed: "failed",
  cancelled: "stopped",
  interrupted: "interrupted",
};

export function count(number) {
  if (number < 1000) return String(number ?? 0);
  if (number < 100_000) return `${(number / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (number < 1_000_000) return `${Math.round(number / 1000)}k`;
  return `${(number / 1_000_000).toFixed(number < 10_000_000 ? 2 : 1)}M`;
}

export function money(usd) {
  if (usd === null || usd === undefined) return "";
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

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

export function clock(at) {
  return at ? CLOCK.format(at) : "";
}

export function moment(at) {
  const time = new Date(at);
  const today = time.toDateString() === new Date().toDateString();
  return today ? SHORT.format(time) : `${DAY.format(time)}, ${SHORT.format(time)}`;
}

export function ago(at) {
  const seconds = Math.max(0, Math.round((Date.now() - at) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return moment(at);
}

export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// Those at work and those that wait for a place are not the same.
export function atWork(running, pending) {
  if (!pending) return `${plural(running, "agent")} at work`;
  return `${plural(running, "agent")} at work, ${pending.toLocaleString("en")} waiting in line`;
}

export function tokens(usage) {
  return (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}
