"""The Seatbelt sandbox of macOS, through its program sandbox-exec.

Its rules are about names, so they hold for what does not exist yet, too. The last rule that fits applies.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gencode.sandbox.profile import Access, SandboxProfile, layers, unmovable_folders

PROGRAM = "/usr/bin/sandbox-exec"

_BEGINNING = (
    "(version 1)",
    "(allow default)",
    "(deny file-write*)",
    "(deny appleevent-send lsopen)",
    "(deny signal)",
    "(allow signal (target same-sandbox))",
    '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))',
    '(allow file-write* (literal "/dev/tty") (subpath "/dev/fd"))',
)
_RULES = {
    Access.WRITE: "(allow file-read* file-write* (subpath (param {name})))",
    Access.READ: "(deny file-write* (subpath (param {name})))(allow file-read* (subpath (param {name})))",
    Access.HIDE: "(deny file-read* file-write* (subpath (param {name})))",
}


def enclose(argv: Sequence[str], plan: SandboxProfile) -> list[str]:
    """The command line that runs another one enclosed. Paths travel beside the profile, never in its text."""
    folders = set(unmovable_folders(plan))
    found = layers(plan, missing=True)
    read = {place for place, access in found if access is Access.READ}
    # A folder that cannot be renamed needs a rule as a place, too, where an outer one forbids writing.
    places = [
        each for each in found if each[0] not in folders or not read.isdisjoint((each[0], *each[0].parents))
    ]
    named = [place for place, _ in places] + sorted(folders)
    definitions = [word for number, place in enumerate(named) for word in ("-D", f"P{number}={place}")]
    profile = "\n".join(_profile(places, len(folders), network=plan.network))
    temp = f"TMPDIR={plan.temp}"
    return [PROGRAM, "-p", profile, *definitions, "--", "/usr/bin/env", temp, *argv]


def _profile(places: Sequence[tuple[Path, Access]], folders: int, *, network: bool) -> Iterator[str]:
    yield from _BEGINNING
    for number, (_, access) in enumerate(places):
        yield _RULES[access].format(name=f'"P{number}"')
    for number in range(len(places), len(places) + folders):
        yield f'(deny file-write* (literal (param "P{number}")))'
    if not network:
        yield "(deny network*)"
