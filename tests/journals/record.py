"""Records the data a build of GenCode leaves behind: databases, exports and what the build said of them.

    .venv-test/bin/python tests/journals/record.py PYTHON OUT [SCENARIO…]

PYTHON is the interpreter of the build's environment: its `gen` is run, and nothing is imported from it. OUT
gets a folder for each scenario with `data.tar.gz` (GEN_HOME and workspace as they were left), `tasks.json`
(what the build said of every task afterwards), `exports/*.jsonl` and, for Postgres, `dump.sql.gz`. Databases
contain paths, so every scenario is recorded, and later unpacked, below `PLACE`.
"""

import contextlib
import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.postgres import Postgres

PLACE = Path("/tmp/gencode-recorded")
SECONDS = 90.0

USAGE = {"inputTokens": 1500, "outputTokens": 100}

Json = dict[str, Any]


def call(name: str, **arguments: Any) -> Json:
    """A tool call of a scripted turn."""
    return {"name": name, "input": arguments}


def says(text: str = "", *calls: Json, **more: Any) -> Json:
    """A scripted turn."""
    return {"text": text, "calls": list(calls), "usage": USAGE, **more}


def task(prompt: str, agent: str = "general-purpose", **more: Any) -> Json:
    """A call that starts a subagent."""
    return call("Task", subagent_type=agent, prompt=prompt, **more)


class Scenario:
    """One GEN_HOME and one workspace in which the build works."""

    def __init__(self, python: Path, name: str) -> None:
        self.gen = python.with_name("gen")
        self.server: Postgres | None = None
        self.root = PLACE / name
        shutil.rmtree(self.root, ignore_errors=True)
        self.ws = self.root / "ws"
        self.ws.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "user"),
            "GEN_HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
        }
        (self.ws / "auth.py").write_text("def login(user):\n    raise PermissionError(user)\n")
        (self.ws / ".gitignore").write_text("*.log\n")
        self._git("init", "-q", "-b", "main")
        self._git("add", ".")
        self._git("commit", "-q", "-m", "start")

    def _git(self, *words: str) -> None:
        who = ("-c", "user.name=recorder", "-c", "user.email=recorder@example.org")
        subprocess.run(["git", *who, *words], cwd=self.ws, env=self.environment, check=True)

    def model(self, **agents: list[Json]) -> list[str]:
        """The flags for a scripted model; `_` is every agent that is not named, `__` a hyphen."""
        lists = {"*" if name == "_" else name.replace("__", "-"): turns for name, turns in agents.items()}
        path = self.root / f"script-{len(list(self.root.glob('script-*')))}.json"
        path.write_text(json.dumps({"agents": lists}))
        return ["--model", f"scripted:{path}"]

    def run(self, *words: str, **environment: str) -> str:
        """Run `gen` to its end; its exit code may be anything."""
        done = subprocess.run(
            [self.gen, *words],
            cwd=self.ws,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode not in {0, 1}:
            print(f"{self.root.name}: gen {' '.join(words)[:100]}: {done.returncode}: {done.stderr[-300:]}")
        return done.stdout

    def killed(self, ready: Callable[[], object], *words: str, **environment: str) -> None:
        """Run `gen`, and kill it with everything it started once `ready` says so."""
        with subprocess.Popen(
            [self.gen, *words],
            cwd=self.ws,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            until = time.monotonic() + SECONDS
            while not ready():
                if time.monotonic() > until or process.poll() is not None:
                    print(f"{self.root.name}: not ready to be killed, exit {process.poll()}")
                    break
                time.sleep(0.1)
            process.kill()
            while others := self._processes():
                for other in others:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(other, signal.SIGKILL)
                time.sleep(0.1)

    def _processes(self) -> list[int]:
        """Everything that still works with this GEN_HOME."""
        mark = f"GEN_HOME={self.environment['GEN_HOME']}".encode()
        found: list[int] = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
        return found

    def tasks(self, **environment: str) -> list[Json]:
        """Every task, as the build lists them. Looking closes what a dead process left open."""
        return json.loads(self.run("task", "list", "--all", "--json", **environment) or '{"tasks": []}')[
            "tasks"
        ]

    def peek(self, statement: str) -> list[Any]:
        """Rows of the database, read from outside so that nothing is closed by looking."""
        path = self.root / "home" / "gencode.db"
        if not path.exists():
            return []
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
                return database.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []

    def keep(self, out: Path, **environment: str) -> int:
        """Write down what is there, then what the build says of it; returns the number of exports."""
        folder = out / self.root.name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "exports").mkdir(parents=True)
        with tarfile.open(folder / "data.tar.gz", "w:gz") as archive:
            archive.add(self.root, self.root.name, filter=_plain)
        if self.server is not None:
            (folder / "dump.sql.gz").write_bytes(gzip.compress(self.server.dump().encode(), mtime=0))
        shown: list[Json] = []
        sessions = json.loads(self.run("sessions", "list", "--json", **environment))["sessions"]
        for noun, listed in (("task", self.tasks(**environment)), ("sessions", sessions)):
            for each in listed:
                identity = each["agentId"]
                shown.append(json.loads(self.run(noun, "show", identity, "--json", **environment)))
                export = str(folder / "exports" / f"{identity}.jsonl")
                self.run("task", "export", identity, export, **environment)
        (folder / "tasks.json").write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n")
        if self.server is not None:
            self.server.close()
        return len(list((folder / "exports").iterdir()))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nothing of the recording machine: no owner, no logs, no sockets."""
    if entry.name.endswith((".log", ".sock")) or not (entry.isfile() or entry.isdir() or entry.issym()):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


READ = call("Read", file_path="auth.py")
NOTE = call("Write", file_path="note.txt", content="a note\n")


def finished(at: Scenario) -> None:
    """Tasks that ended in every way there is, in the foreground and the background, resumed and forked."""
    reader = [says("", READ), says("In auth.py:1.")]
    at.run(
        "-p",
        "Who checks?",
        *at.model(main=[says("", task("look", "Explore")), says("Explore says so.")], Explore=reader),
    )
    at.run(
        *("-p", "Two at once"),
        *at.model(
            main=[
                says("", task("a", run_in_background=True), task("b", "Explore", description="Auth")),
                says("One is there."),
                says("Both are there."),
            ],
            Explore=reader,
            general__purpose=[says("", READ, delay_ms=300), says("Slow but sure.")],
        ),
    )
    at.run(
        *("-p", "Change it", "--permission-mode", "acceptEdits"),
        *at.model(
            main=[
                says("", READ),
                says(
                    "",
                    NOTE,
                    call(
                        "Edit", file_path="auth.py", old_string="user)", new_string="name)", replace_all=True
                    ),
                ),
                says("Changed."),
            ]
        ),
    )
    at.run(
        *("-p", "Run it", "--permission-mode", "dontAsk"),
        *at.model(
            main=[says("", task("run")), says("Ran.")],
            _=[
                says("", call("Bash", command="echo out; exit 3"), call("Bash", command="ls")),
                says("Exit 3."),
            ],
        ),
    )
    at.run(
        "-p",
        "Refused",
        *at.model(main=[says("", task("write it")), says("So so.")], _=[says("", NOTE), says("Written.")]),
    )
    at.run(
        *("-p", "Denied", "--deny", "Read(auth.py)", "--allow", "Bash(ls:*)"),
        *at.model(main=[says("", READ, call("Bash", command="ls -l")), says("Denied, listed.")]),
    )
    at.run(
        "-p",
        "Ask me",
        *at.model(
            main=[
                says(
                    "",
                    call(
                        "AskUserQuestion",
                        questions=[
                            {
                                "question": "Which?",
                                "header": "DB",
                                "options": [
                                    {"label": "Postgres", "description": "p"},
                                    {"label": "SQLite", "description": "s"},
                                ],
                                "multiSelect": False,
                            }
                        ],
                    ),
                ),
                says("Nobody."),
            ]
        ),
    )
    at.run(
        "-p",
        "Todo",
        *at.model(
            main=[
                says(
                    "",
                    call(
                        "TodoWrite",
                        todos=[{"content": "one", "status": "in_progress", "activeForm": "doing one"}],
                    ),
                ),
                says("Listed."),
            ]
        ),
    )
    at.run(
        "-p",
        "Spawned",
        *at.model(
            main=[
                says("", call("spawn", task="count sheep", label="sheep")),
                says("Started."),
                says("It came."),
            ],
            _=[says("Three sheep.")],
        ),
        GEN_TOOLS="spawn;spawn_subagent",
    )
    at.run(
        "-p",
        "Typed",
        *at.model(
            main=[
                says("", call("spawn_subagent", type="general", input="count", description="goats")),
                says("Done."),
            ],
            _=[says("Two goats.")],
        ),
        GEN_TOOLS="spawn;spawn_subagent",
    )
    (at.ws / "lead.md").write_text(
        "---\nname: lead\ndescription: Leads.\ntools: Read, Task(Explore)\n---\nLead.\n"
    )
    user = at.root / "home" / "agents"
    user.mkdir(parents=True, exist_ok=True)
    shutil.move(at.ws / "lead.md", user / "lead.md")
    at.run(
        *("-p", "Deep"),
        *at.model(
            main=[says("", task("lead", "lead")), says("Deep enough.")],
            lead=[
                says("", task("below", "Explore", run_in_background=True), task("beside", "Explore")),
                says("Led."),
                says("Led on."),
            ],
            Explore=reader,
        ),
        GEN_MAX_DEPTH="2",
    )
    schema = at.root / "schema.json"
    schema.write_text(
        json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    )
    at.run("task", "run", "Explore", "Count", "--output-schema", str(schema), *at.model(_=[says('{"n": 3}')]))
    at.run(
        "task",
        "run",
        "Explore",
        "Count wrongly",
        "--output-schema",
        str(schema),
        *at.model(_=[says("three")] * 6),
    )
    at.run("task", "run", "Explore", "For ever", "--max-turns", "2", *at.model(_=[says("", READ)] * 9))
    at.run(
        "task",
        "run",
        "Explore",
        "Slowly",
        "--max-seconds",
        "1",
        *at.model(_=[says("", READ), says("late", delay_ms=4000)]),
    )
    at.run("task", "run", "Explore", "Silent", *at.model(_=[says("")] * 4))
    at.run("task", "run", "Explore", "Too short a script", *at.model(_=[says("first", READ)]))
    at.run(
        "task",
        "run",
        "Explore",
        "Long",
        *at.model(_=[says("\n".join(f"line {n} of a long report" for n in range(1200)))]),
    )
    at.run("task", "run", "Explore", "Poor", "--max-tokens-total", "5000", *at.model(_=[says("", READ)] * 40))
    at.run("task", "run", "general-purpose", "Apart", "--isolation", "process", *at.model(_=reader))
    at.run("task", "run", "general-purpose", "Detached", "--background", *at.model(_=reader))
    listed = {each["prompt"]: each["agentId"] for each in at.tasks()}
    at.run("task", "output", listed["Detached"])
    at.run(
        "task",
        "resume",
        listed["Count"],
        "And again",
        *at.model(_=[says("", READ), says("Three again."), says("3")] * 3),
    )
    at.run(
        "task", "resume", listed["Slowly"], "Now at once", *at.model(_=[says("a"), says("b"), says("Now.")])
    )
    at.run(
        "task",
        "fork",
        listed["For ever"],
        "--at",
        "4",
        "Otherwise",
        *at.model(_=[says("x"), says("Forked."), says("y")]),
    )
    at.run(
        "task",
        "run",
        "Explore",
        "Stop me",
        "--background",
        *at.model(_=[says("", READ), says("late", delay_ms=60000)]),
    )
    stopped = next(each["agentId"] for each in at.tasks() if each["prompt"] == "Stop me")
    time.sleep(1.5)
    at.run("task", "stop", stopped)
    at.run(
        "task",
        "run",
        "Explore",
        "Steer me",
        "--background",
        *at.model(_=[says("", READ, delay_ms=1500), says("Steered.", delay_ms=500), says("Heard.")]),
    )
    steered = next(each["agentId"] for each in at.tasks() if each["prompt"] == "Steer me")
    at.run("task", "send", steered, "leave the tests out")
    at.run("task", "output", steered)
    session = json.loads(
        at.run(
            "-p", "First turn", "--output-format", "json", *at.model(main=[says("First."), says("Second.")])
        )
    )["sessionId"]
    at.run("-p", "Second turn", "--session", session, *at.model(main=[says("First."), says("Second.")]))


def killed(at: Scenario) -> None:
    """A conversation with a foreground agent, a background agent and a command at work, killed."""
    at.killed(
        lambda: (at.ws / "begun").exists() and _lasts(at),
        *("-p", "Be killed", "--permission-mode", "dontAsk"),
        *at.model(
            main=[
                says("", task("done soon", "Explore", run_in_background=True), task("done", "Explore")),
                says("", task("behind", run_in_background=True), task("ahead")),
                says("Never."),
                says("Never."),
            ],
            Explore=[says("", READ), says("Known.")],
            _=[says("", READ), says("", call("Bash", command="touch begun; sleep 300")), says("Never.")],
        ),
    )


def _lasts(at: Scenario) -> bool:
    """Both agents are at their commands for a moment."""
    time.sleep(1.5)
    return True


def queued(at: Scenario) -> None:
    """One agent at work and three that wait for a free place, killed; and one whose result nobody fetched."""
    at.killed(
        lambda: (at.ws / "begun").exists() and _lasts(at),
        *("-p", "Queue", "--permission-mode", "dontAsk"),
        *at.model(
            main=[
                says("", *(task(f"job {n}", run_in_background=True) for n in range(4))),
                says("Waiting.", delay_ms=60000),
            ],
            _=[says("", call("Bash", command="touch begun; sleep 300")), says("Never.")],
        ),
        GEN_MAX_AGENTS="1",
    )


def asking(at: Scenario) -> None:
    """A detached agent whose question waits for a person at `gen serve`; both are killed."""
    model = at.model(_=[says("", call("Bash", command="touch asked")), says("Asked.")])
    with subprocess.Popen(
        [at.gen, "serve", "--cwd", at.ws],
        env=at.environment | {"GEN_BACKGROUND_QUESTIONS": "true"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ):
        while not at.peek("SELECT 1 FROM Persons"):
            time.sleep(0.1)
        at.killed(
            lambda: at.peek("SELECT 1 FROM OpenQuestions"),
            *("task", "run", "general-purpose", "Ask first", "--isolation", "process"),
            *model,
            GEN_BACKGROUND_QUESTIONS="true",
        )


def scheduled(at: Scenario) -> None:
    """Planned prompts and tasks, one of them run once."""
    flags = at.model(main=[says("Morning.")], _=[says("Looked.")])
    for words in (
        ("0 9 * * 1-5", "Which tests failed?"),
        ("every 30m", "Look for warnings", "--agent", "Explore"),
        ("every 1m", "Soon", "--agent", "Explore"),
    ):
        at.run("cron", "add", *words, GEN_MODEL=flags[1])
    at.killed(
        lambda: at.peek("SELECT 1 FROM SubSessions WHERE Status='completed'"),
        "cron",
        "run",
        GEN_MODEL=flags[1],
    )
    at.run("cron", "list", "--all", GEN_MODEL=flags[1])


def budgeted(at: Scenario) -> None:
    """Trees with budgets: one ended by its budget, one killed while parts of it were in use elsewhere."""
    many = [says("", READ)] * 12
    at.run(
        *("-p", "Spend", "--max-tokens-total", "60000", "--max-spawns", "3"),
        *at.model(
            main=[
                says(
                    "",
                    task("a", budget={"tokens": 20000}),
                    task("b"),
                    task("c", budget={"turns": 2}),
                    task("d"),
                ),
                says("Spent."),
            ],
            _=[*many, says("Much.")],
        ),
    )
    at.killed(
        lambda: (at.ws / "begun").exists() and _lasts(at),
        *("-p", "Spend and die", "--max-tokens-total", "400000", "--permission-mode", "dontAsk"),
        *at.model(
            main=[
                says(
                    "",
                    task("inside", budget={"tokens": 50000}, run_in_background=True),
                    task("apart", isolation="process"),
                ),
                says("Never."),
                says("Never."),
            ],
            _=[says("", READ), says("", call("Bash", command="touch begun; sleep 300")), says("Never.")],
        ),
    )


def worktrees(at: Scenario) -> None:
    """Agents in worktrees: work that was left there, work that was merged, and one killed in the middle."""
    write = [says("", call("Write", file_path="made.txt", content="made\n")), says("Made.")]
    at.run(
        "task",
        "run",
        "general-purpose",
        "Make it",
        "--isolation",
        "worktree",
        "--permission-mode",
        "dontAsk",
        *at.model(_=write),
    )
    at.run(
        "-p",
        "Make another",
        "--permission-mode",
        "dontAsk",
        *at.model(main=[says("", task("make", isolation="worktree")), says("Made there.")], _=write),
    )
    at.killed(
        lambda: any((at.root / "home").rglob("half.txt")) and _lasts(at),
        *("-p", "Die there", "--permission-mode", "dontAsk"),
        *at.model(
            main=[says("", task("half", isolation="worktree")), says("Never.")],
            _=[
                says("", call("Write", file_path="half.txt", content="half\n")),
                says("", call("Bash", command="sleep 300")),
                says("Never."),
            ],
        ),
    )


def fleet(at: Scenario) -> None:
    """Tasks on workers that share a Postgres: done, at work when their worker was killed, and never begun."""
    server = Postgres()
    at.server = server
    at.environment["GEN_DATABASE_URL"] = server.url()
    at.run("migrate")
    work = [says("", READ), says("", call("Bash", command="sleep 300")), says("Never.")]
    quick = at.model(_=[says("", READ), says("Worked.")])
    slow = at.model(_=work)
    mode = ("--permission-mode", "dontAsk")
    at.run("task", "run", "Explore", "quick", "--background", *quick)
    at.run("task", "run", "general-purpose", "slow", "--background", *mode, *slow)

    def begun() -> bool:
        states = {each["prompt"]: each["status"] for each in at.tasks()}
        return states == {"quick": "completed", "slow": "running"} and _lasts(at)

    at.killed(begun, "worker", "--workspace", str(at.root), "--concurrency", "2")
    at.run("task", "run", "Explore", "never begun", "--background", *quick)
    at.run("-p", "in the foreground", *at.model(main=[says("", READ), says("Here.")]))


SCENARIOS = (fleet, finished, killed, queued, asking, scheduled, budgeted, worktrees)


def main() -> None:
    """Record every scenario, or those that are named."""
    python, out, *named = sys.argv[1:]
    for scenario in SCENARIOS:
        if named and scenario.__name__ not in named:
            continue
        at = Scenario(Path(python).absolute(), scenario.__name__)
        scenario(at)
        print(f"{scenario.__name__}: {at.keep(Path(out))} tasks")


if __name__ == "__main__":
    main()
