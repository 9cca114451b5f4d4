"""sandbox: what a command that only reads does not see, because a rule denies reading it.

Only what is not needed for the command to run at all. Git sees everything: it would take what it does not see
for deleted, and show what was in it.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from gencode.permissions.bash.decision import CommandReading
from gencode.permissions.secrets import KERNEL_ROOTS, SYSTEM_ROOTS, folded, is_under
from gencode.sandbox.aliases import programs
from gencode.sandbox.guards import real
from gencode.sandbox.plan import Enclosure

_SYSTEM = SYSTEM_ROOTS | KERNEL_ROOTS
_MOST = 200
"""Each is mounted by itself, and a repository may bring many rules."""


def veiled(plan: Enclosure, closed: Iterable[str], cwd: Path) -> Enclosure:
    """The same enclosure, with these places hidden as well, as far as they can be."""
    needed = [*plan.writable, plan.temp, *map(real, (cwd, Path.home(), *plan.shown)), *programs()]
    more = [
        place
        for place in map(Path, closed)
        if not any(each.is_relative_to(place) for each in needed)
        and not any(place.is_relative_to(each) for each in map(real, plan.hidden))
        and not is_under(folded(str(place)), _SYSTEM)
    ]
    outer = [place for place in more if not any(each in place.parents for each in more)]
    return replace(plan, veiled=tuple(outer[:_MOST]))


def is_for_veils(reading: CommandReading) -> bool:
    """Whether a command is shown to only read, and none of its parts is git."""
    return reading.only_reads and not any(unit.is_git for unit in reading.command.units)
