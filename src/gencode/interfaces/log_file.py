"""The log file, and how an unexpected error is reported: a traceback there, one line to people."""

import logging
from io import TextIOWrapper
from pathlib import Path

from gencode.core.text import exact, visible_line
from gencode.settings import gen_home

LARGEST = 5_000_000
LONGEST = 50_000


def log_file() -> Path:
    """Where the log is."""
    return gen_home() / "logs" / "gen.log"


class EscapingFormatter(logging.Formatter):
    """What is logged is shown exactly, and only our own lines begin at the edge: no text can add a record."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, its traceback indented below it."""
        text = super().format(record)
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text) - LONGEST:,} more characters)"
        return exact(cut).replace("\n", "\n  ")


class LogFile(logging.FileHandler):
    """A file that is made when there is something to write, for its owner only; never a reason to fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)
        self.setFormatter(EscapingFormatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))

    def _open(self) -> TextIOWrapper:
        path = Path(self.baseFilename)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))
        path.touch(mode=0o600)
        return path.open("a", encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """A log that cannot be written is not worth a word on the screen."""


def start_log(*, verbose: bool) -> None:
    """Warnings and faults go to the log from now on; everything when `verbose`."""
    root = logging.getLogger()
    if not any(isinstance(each, LogFile) for each in root.handlers):
        root.addHandler(LogFile(log_file()))
    logging.getLogger("gencode").setLevel(logging.DEBUG if verbose else logging.WARNING)


def logged_fault(bug: Exception) -> str:
    """Log a bug with its traceback where it meets a person or a client, and give the line for them."""
    logging.getLogger(__name__).error("an action or a request failed unexpectedly", exc_info=bug)
    return fault_line(bug)


def fault_line(bug: Exception) -> str:
    """A bug of ours in one line, with where to find the rest of it."""
    what = visible_line(": ".join(filter(None, (type(bug).__name__, str(bug)))), 200)
    return f"That did not work, by a fault in GenCode ({what}). Details: {log_file()}"
