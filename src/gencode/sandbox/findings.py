"""sandbox: what was seen in a trial, in plain sentences."""

from collections.abc import Iterator

_GUARDED = ".git/hooks, .git/config and .gen of the workspace"
_LOOKED_AT = "GenCode looks after each command and tells"


def kept_out(possible: frozenset[str]) -> Iterator[str]:
    """What commands cannot do, by what a trial found possible."""
    yield "Commands can write only in the workspace and in a temporary folder of their own."
    if "kernel" not in possible:
        yield "They cannot change settings of the kernel, such as those in /proc/sys."
    if "guarded" not in possible:
        yield f"They cannot change {_GUARDED}."
    if "hidden" not in possible:
        yield "They cannot read GenCode's database and settings."
    if possible.isdisjoint({"tcp", "udp"}):
        yield "They have no network unless you give it to them."
    elif "tcp" not in possible:
        yield "They have no TCP connections unless you give them the network."
    if "signal" not in possible:
        yield "They cannot signal processes outside."


def left_open(possible: frozenset[str]) -> Iterator[str]:
    """What commands can do although one might think otherwise."""
    if "guarded" in possible:
        yield f"Commands can change {_GUARDED}; {_LOOKED_AT}."
    elif "missing" in possible:
        yield f"Commands can make .git and .gen in the workspace where there is none yet; {_LOOKED_AT}."
    if "truncate" in possible:
        yield "Commands can empty files outside the workspace."
    if "change" in possible:
        yield "Commands can change the permissions and times of your files outside the workspace."
    if "tcp" in possible:
        yield "Commands can use the network."
    elif "udp" in possible:
        yield "Commands can use the network for all but TCP, for instance to ask for names (DNS)."
    if "abstract" in possible:
        yield "Commands can talk to other programs through abstract sockets."
    if "socket" in possible:
        hidden = "" if "hidden" in possible else ", except those in /run and a few other well-known ones"
        yield f"Commands can talk to programs whose sockets lie in a folder{hidden}."
    if "signal" in possible:
        yield "Commands can end other programs of yours."
    if "hidden" in possible:
        yield "Commands can read GenCode's database and settings."
    yield "Commands can read whatever else you can."
    yield "Commands can make repositories in the workspace, with hooks of their own."
