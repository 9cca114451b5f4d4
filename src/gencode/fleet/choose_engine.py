"""The engine that goes with a journal: processes beside a file, workers beside a database (engines rack)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gencode.core.rules import Policy
from gencode.journal.dispatch import Engine, SharedJournal
from gencode.journal.store import Store
from gencode.tasks.process_engine import ProcessEngine


def engine_for(store: Store, home: Path, cwd: Path, flags: Mapping[str, Any], policy: Policy) -> Engine:
    """The engine for a journal. What a queue needs is loaded when the first task goes into it.

    `policy` is what counts here: by the `flags`, and by the settings that only this machine has.
    """
    if isinstance(store, SharedJournal):
        from gencode.fleet.fleet_engine import FleetEngine

        return FleetEngine(store, cwd, flags, home, policy)
    return ProcessEngine(home, cwd, flags)
