"""The line that installs an extra, for every sentence that says one is missing (core)."""

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def installing(extra: str) -> str:
    """What to type; where we run from a clone, what to type there, for the environment that runs us."""
    released = f"pip install 'gencode-ai[{extra}]'"
    if not (ROOT / "pyproject.toml").is_file():
        return released
    here = f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{ROOT}[{extra}]')}"
    return f"{released} (in this clone: {here})"
