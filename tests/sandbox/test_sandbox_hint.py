"""Below a failure that the sandbox may have caused stands what it keeps commands from."""

import errno
import os

from msgspec.structs import replace

from gencode.sandbox.confinement import Confinement, Localhost, NetworkAccess, sandbox_hint

FOUND = Confinement(
    "bubblewrap", NetworkAccess.NONE, Localhost.TASK, network_on_request=True, writable=("/w",)
)
OPEN = replace(FOUND, network=NetworkAccess.ALL, network_on_request=False)
BARE = replace(FOUND, sandbox="")
NO_NETWORK = "This may be the sandbox: commands have no network; ask for it with `network`."


def test_a_place_that_cannot_be_written_is_explained() -> None:
    said = f"touch: cannot touch '/usr/x': {os.strerror(errno.EROFS)}"
    assert (
        sandbox_hint(FOUND, said, approver=True)
        == "This may be the sandbox: commands write only in /w and $TMPDIR."
    )
    assert sandbox_hint(BARE, said, approver=True) == ""
    guarded = sandbox_hint(replace(FOUND, guarded=True), said, approver=True)
    assert guarded.endswith("$TMPDIR, but not .git/config, .git/hooks and .gen in there.")


def test_a_network_that_is_not_there_is_explained_only_where_it_is_not() -> None:
    said = "curl: (6) Could not resolve host: example.org"
    assert (sandbox_hint(FOUND, said, approver=True), sandbox_hint(OPEN, said, approver=True)) == (
        NO_NETWORK,
        "",
    )
    assert sandbox_hint(FOUND, f"connect: {os.strerror(errno.ENETUNREACH)}", approver=True) == NO_NETWORK


def test_other_failures_are_left_alone() -> None:
    assert sandbox_hint(FOUND, "AssertionError: 1 != 2", approver=True) == ""


def test_nobody_is_advised_to_ask_for_the_network_where_nobody_can_give_it() -> None:
    said = f"connect: {os.strerror(errno.ENETUNREACH)}"
    hint = "This may be the sandbox: commands have no network."
    assert sandbox_hint(FOUND, said, approver=False) == hint
