// A first page: the newest tasks, kept up to date by the stream. Text is only ever set as text.
const rows = document.getElementById("tasks");
const state = document.getElementById("state");

function cell(text) {
  const made = document.createElement("td");
  made.textContent = text;
  return made;
}

function show(tasks) {
  rows.replaceChildren(...tasks.map((task) => {
    const row = document.createElement("tr");
    const title = task.description || task.prompt;
    row.append(...[task.agentId, task.agent, task.status, task.turns, title.slice(0, 200)].map(cell));
    return row;
  }));
}

async function load() {
  const answer = await fetch("/api/tasks?limit=100");
  if (!answer.ok) throw new Error((await answer.json()).error);
  const page = await answer.json();
  show(page.tasks);
  return page.cursor;
}

let waiting = 0;
function soon() {
  waiting ||= setTimeout(() => { waiting = 0; load().catch(tell); }, 250);
}

function tell(error) {
  state.textContent = String(error.message || error);
}

load().then((cursor) => {
  state.textContent = "live";
  const stream = new EventSource(`/api/stream?brief=true&after=${encodeURIComponent(cursor)}`);
  const names = ["Created", "StatusChanged", "Completed", "Failed", "Cancelled"].map((name) => `SubSession${name}`);
  for (const name of [...names, "MessageAdded", "StreamReset"]) stream.addEventListener(name, soon);
  stream.addEventListener("error", () => { state.textContent = "the server is away; trying again"; });
  stream.addEventListener("open", () => { state.textContent = "live"; });
}).catch(tell);
