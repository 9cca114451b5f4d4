// Questions to the server. What it refuses is an error with its sentence.

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(method, path, body) {
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

export function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given).toString();
  return ask("GET", text ? `${path}?${text}` : path);
}

export const post = (path, body = {}) => ask("POST", path, body);
export const put = (path, body = {}) => ask("PUT", path, body);

// What this token may do; filled by the first answer of the server.
export const me = { rights: new Set(), health: null };

export function may(...rights) {
  return rights.every((each) => me.rights.has(each));
}

export async function introduce() {
  me.health = await get("/api/health");
  me.rights = new Set(me.health.rights);
  return me.health;
}

export const task = (id, rest = "") => `/api/tasks/${encodeURIComponent(id)}${rest}`;
