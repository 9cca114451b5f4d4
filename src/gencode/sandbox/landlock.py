"""The Landlock sandbox, Linux's own rules for a process. It needs no program: our own Python applies them."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gencode.core.structs import replace
from gencode.sandbox.landlock_launcher import JOINED, NAMESPACES, NETWORK, TEMP, TMP
from gencode.sandbox.profile import SYSTEM_TMP, Access, SandboxProfile, layers

_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from gencode.sandbox.landlock_launcher import main; main(sys.argv[2:])"
)
_PACKAGES = Path(__file__).parents[2]


def enclose(argv: Sequence[str], plan: SandboxProfile, *, namespaces: bool) -> list[str]:
    """The command line that runs another one enclosed.

    With `namespaces` the command also gets a file system and a network of its own, where the kernel lets us.
    """
    python = [sys.executable, "-I", "-S", "-E", "-c", _START, str(_PACKAGES)]
    return [*python, *_options(plan, namespaces=namespaces), "--", *argv]


def _options(plan: SandboxProfile, *, namespaces: bool) -> Iterator[str]:
    if namespaces:
        yield NAMESPACES
    if plan.network:
        yield NETWORK
    if plan.joined:
        yield JOINED
    private = plan.private_tmp and namespaces
    yield f"{TEMP}={SYSTEM_TMP if private else plan.temp}"
    if private:
        yield f"{TMP}={plan.temp}"
    for place, access in layers(plan if private else replace(plan, private_tmp=False)):
        if namespaces or access is Access.WRITE:
            yield f"{access}={place}"
