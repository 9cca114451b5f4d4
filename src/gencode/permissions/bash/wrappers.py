"""Wrappers such as `sudo`, `env` and `xargs`: where the command that they run begins.

A transparent wrapper is stripped for every rule. A dispatcher is not: deny and ask rules look at every suffix
of its words, and an allow rule must name what it runs. What is listed here is data; an option that is not
listed makes the part opaque.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gencode.core.text import word_set
from gencode.permissions.bash.readonly import safe_name
from gencode.permissions.bash.rule_automaton import Values

DISPATCHERS = word_set(
    "sudo doas su runuser pkexec exec builtin setsid ionice taskset chrt strace ltrace flock unshare "
    "nsenter chroot busybox toybox watch script parallel ssh systemd-run firejail proot fakeroot unbuffer "
    "docker podman kubectl"
)

TAKES_SHELL_TEXT = frozenset({"su", "runuser", "ssh", "watch", "script", "parallel", "flock"})
"""Dispatchers that give a word of theirs to a shell."""

RUNS_FIRST_WORD = frozenset({"sudo", "doas", "exec", "builtin", "setsid", "fakeroot", "unbuffer"})
"""Dispatchers that, without options, run the word after them and nothing else."""

_EXEC = frozenset({"exec", "x"})
_RUN = frozenset({"run"})
_FIRST = frozenset[str]()
RUNNERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "setarch",
            "linux64",
            "linux32",
            "i386",
            "prlimit",
            "setpriv",
            "npx",
            "pnpx",
            "bunx",
            "uvx",
            "xvfb-run",
            "dbus-run-session",
            "faketime",
            "valgrind",
        ),
        _FIRST,
    ),
    **dict.fromkeys(("uv", "poetry", "pipenv", "hatch", "pipx", "pdm", "rye"), _RUN),
    **dict.fromkeys(("npm", "bun"), _EXEC),
    **dict.fromkeys(("pnpm", "yarn"), frozenset({"exec", "dlx"})),
    "bundle": frozenset({"exec"}),
}
"""Programs that run another one, behind one of these words.

Deny and ask rules look at every suffix behind it; for allow rules they are commands like any other.
"""

_DISPATCHER_VALUED: dict[str, frozenset[str]] = {
    "sudo": word_set(
        "-u -g -U -h -p -C -D -R -r -t -T -a -c --user --group --other-user --host --prompt --chdir --chroot"
    ),
    "doas": frozenset({"-u", "-C", "-a"}),
    "exec": frozenset({"-a"}),
}
"""Options whose value is a word of its own, so that an allow rule cannot stop at that value."""

_MOST_NESTED = 50
_TOO_MANY = "there are too many wrappers in one command"


class _Options(NamedTuple):
    """`flags` as they are; `valued` with a value glued on or next; `glued` long ones that end in `=`."""

    flags: frozenset[str] = frozenset()
    valued: tuple[str, ...] = ()
    glued: tuple[str, ...] = ()
    operands: int = 0
    number: bool = False


_WRAPPERS: dict[str, _Options] = {
    "timeout": _Options(
        frozenset({"-v", "--foreground", "--preserve-status", "--verbose"}),
        ("-k", "-s"),
        ("--kill-after=", "--signal="),
        operands=1,
    ),
    "nice": _Options(valued=("-n",), glued=("--adjustment=",), number=True),
    "nohup": _Options(),
    "stdbuf": _Options(valued=("-i", "-o", "-e"), glued=("--input=", "--output=", "--error=")),
    "time": _Options(frozenset({"-p"})),
    "command": _Options(),
    "xargs": _Options(
        frozenset({"-0", "-r", "-t", "-0r", "-r0", "--null", "--no-run-if-empty", "--verbose"}),
        ("-n", "-L", "-P", "-I", "-d", "-s"),
        ("--max-args=", "--max-procs=", "--max-lines=", "--delimiter=", "--replace="),
    ),
}
_NUMBER = re.compile(r"-[0-9]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

_SU_TEXT = re.compile(r"-[A-Za-z]*c|--command|--session-command")
_STARTS_SHELL = re.compile(r"-[A-Za-z]*[is]|--login\Z|--shell\Z")

_ENV_FLAGS = frozenset({"-i", "--ignore-environment", "-0", "--null"})
_ENV_VALUED = frozenset({"-u", "--unset", "-C", "--chdir"})
_ENV_GLUED = ("-u", "-C", "--unset=", "--chdir=")
_ENV_FOLDER = frozenset({"-C", "--chdir"})
_ENV_FOLDER_GLUED = ("-C", "--chdir=")
_ENV_SPLIT = re.compile(r"-[i0v]*S|--s[a-z-]*=?")


class Wrapped(NamedTuple):
    """Where the command of one wrapper begins (the number of words if there is none).

    `unknown` says which word is not understood; then the place is a guess. `replaced` is the text for which
    xargs puts its input, `split` the place of a word that env takes apart, `folder` where env goes first.
    """

    at: int
    unknown: str = ""
    transparent: bool = True
    replaced: str = ""
    split: int = -1
    folder: str = ""


def base_name(value: str) -> str:
    """A command word without its path."""
    return value.rpartition("/")[2]


def in_system_folder(value: str) -> bool:
    """Whether a command word is a bare name, or that name in /bin or /usr/bin."""
    name = base_name(value)
    return value in (name, f"/bin/{name}", f"/usr/bin/{name}")


def wrapped_by(values: Values, at: int) -> Wrapped | None:
    """How the word at `at` wraps what follows; None if it is no wrapper whose options are known here."""
    head = values[at]
    if head is None:
        return None
    name = base_name(head)
    if name == "env":
        found = _env(values, at)
    elif name == "command" and at + 1 < len(values) and values[at + 1] in ("-v", "-V"):
        return None
    elif name == "command" and at + 1 < len(values) and values[at + 1] == "-p":
        found = Wrapped(_first_operand(values, at + 1, frozenset()), transparent=False)
    elif options := _WRAPPERS.get(name):
        found = _by_table(name, options, values, at)
    else:
        return None
    return found if in_system_folder(head) else found._replace(transparent=False)


def _by_table(name: str, options: _Options, values: Values, head: int) -> Wrapped:
    at = head + 1
    operands = options.operands
    replaced = ""
    while at < len(values):
        value = values[at]
        if value is None:
            return Wrapped(at, _dynamic(name))
        if not value.startswith("-") or operands < options.operands:
            if not operands:
                break
            operands -= 1
            at += 1
        elif value in options.flags or (options.number and _NUMBER.fullmatch(value)):
            at += 1
        elif value.startswith(options.glued) and options.glued:
            if value.startswith("--replace="):
                replaced = value.partition("=")[2] or "{}"
            at += 1
        elif value[:2] in options.valued:
            given = value[2:] if len(value) > 2 else _next(values, at)
            if given is None:
                return Wrapped(at, _dynamic(name))
            if value.startswith("-I"):
                replaced = given
                if not given:
                    return Wrapped(at, "xargs -I lacks its text")
            at += 1 if len(value) > 2 else 2
        else:
            return Wrapped(at, f"{name} has the option {value}, which is not known here")
    return Wrapped(min(at, len(values)), replaced=replaced)


def _next(values: Values, at: int) -> str | None:
    """The word after `at`; an empty one at the end, where the wrapper runs nothing."""
    return values[at + 1] if at + 1 < len(values) else ""


def _dynamic(name: str) -> str:
    return f"a word of {name} before its command is only known when it runs"


def _env(values: Values, head: int) -> Wrapped:
    at = head + 1
    transparent, folder = True, ""
    while at < len(values):
        value = values[at]
        if value is None:
            return Wrapped(at, _dynamic("env"))
        if not value.startswith("-"):
            if "=" not in value:
                break
            transparent = transparent and safe_name(value.partition("=")[0])
            at += 1
            continue
        transparent = False
        if value in _ENV_VALUED:
            given = _next(values, at)
            if given is None:
                return Wrapped(at, _dynamic("env"))
            folder = given if value in _ENV_FOLDER else folder
            at += 2
        elif value in _ENV_FLAGS or value.startswith(_ENV_GLUED):
            glued = next((value[len(each) :] for each in _ENV_FOLDER_GLUED if value.startswith(each)), "")
            folder = glued or folder
            at += 1
        else:
            split = at if _ENV_SPLIT.match(value) else -1
            return Wrapped(at, f"env has the option {value}, which is not known here", False, split=split)
    return Wrapped(min(at, len(values)), transparent=transparent, folder=folder)


def split_string(values: Values, at: int) -> tuple[str | None, ...]:
    """The words that `env -S` makes of the word at `at` (or the next one), and what follows."""
    option = values[at] or ""
    found = _ENV_SPLIT.match(option)
    text: str | None = option[found.end() :] if found else ""
    rest = at + 1
    if not text:
        text = _next(values, at)
        rest += 1
    if text is None:
        return (None, *values[rest:])
    plain = re.sub(r"\\[_tnrfv]", " ", text)
    words = [None if "${" in word else re.sub(r"[\"'\\]", "", word) for word in plain.split()]
    return (*words, *values[rest:])


class WrapperReach(NamedTuple):
    """What wrappers leave of the words of a command.

    `inner` is the place of the command that is left when all transparent wrappers are gone, `starts` the
    places on the way there. `free_from` is the place from which every suffix counts, -1 if there is none.
    `core` is the command at the end of all wrappers and dispatchers, `heads` all places on the way to it.
    `unknown` says why nobody knows what runs, `xargs` where xargs stands (-1 if it does not). `folders` are
    those that env goes to. `runs_from` is the place from which every suffix counts, for deny and ask rules
    only.
    """

    inner: int
    starts: tuple[int, ...]
    free_from: int
    core: int
    heads: tuple[int, ...]
    unknown: str = ""
    xargs: int = -1
    replaced: tuple[str, ...] = ()
    splits: tuple[int, ...] = ()
    folders: tuple[str, ...] = ()
    runs_from: int = -1

    @property
    def strict_from(self) -> int:
        """The place from which deny and ask rules look at every suffix, -1 if there is none."""
        found = [each for each in (self.free_from, self.runs_from) if each >= 0]
        return min(found, default=-1)


NOTHING_WRAPPED = WrapperReach(0, (0,), -1, 0, (0,))


def reach(values: Values) -> WrapperReach:
    """Follow the wrappers and dispatchers from the first word on."""
    head = values[0] if values else None
    if head is None or not _leads_on(base_name(head)):
        return NOTHING_WRAPPED
    at = inner = 0
    starts, heads = [0], [0]
    replaced: list[str] = []
    splits: list[int] = []
    free_from = xargs = last = given = -1
    folders: list[str] = []
    unknown = ""
    while at < len(values) and not unknown:
        found = wrapped_by(values, at)
        if found is None:
            found = _dispatched(values, at)
        if found is None:
            break
        last = at
        if base_name(values[at] or "") == "xargs" and xargs < 0:
            xargs, given = at, found.at
        if found.replaced and found.replaced not in replaced:
            replaced.append(found.replaced)
        if found.split >= 0:
            splits.append(found.split)
        if free_from < 0 and (found.unknown or not found.transparent):
            free_from = at
        if len(heads) > _MOST_NESTED:
            return WrapperReach(0, (0,), 0, 0, (0,), _TOO_MANY)
        unknown = found.unknown
        folders += [found.folder] if found.folder else []
        at = found.at
        heads.append(at)
        if free_from < 0:
            inner = at
            starts.append(at)
    if at >= len(values) and last > xargs >= 0:
        # Only the xargs that ends the words runs echo; any wrapper behind it runs what xargs reads.
        unknown = unknown or f"xargs gives {base_name(values[last] or '')} the command that it runs"
    if replaced and any(text in (word or "") for word in values[given:at] for text in replaced):
        unknown = unknown or "xargs puts what it reads among the words of a wrapper"
    found = WrapperReach(
        inner,
        tuple(starts),
        free_from,
        at,
        tuple(heads),
        unknown,
        xargs,
        tuple(replaced),
        tuple(splits),
        tuple(folders),
        _runs_from(values, at),
    )
    if found.runs_from >= 0:
        found = _with_splits_behind(values, found)
    return found if free_from < 0 else _with_far_ones(values, found)


def _with_splits_behind(values: Values, found: WrapperReach) -> WrapperReach:
    """What `env -S` takes apart behind a program that runs another one."""
    behind = range(found.runs_from, len(values))
    places = [at for at in behind if base_name(values[at] or "") == "env"][:_MOST_NESTED]
    wrapped = (wrapped_by(values, at) for at in places)
    splits = (each.split for each in wrapped if each is not None and each.split >= 0)
    return found._replace(splits=(*found.splits, *splits))


def _with_far_ones(values: Values, found: WrapperReach) -> WrapperReach:
    """A dispatcher may have its command anywhere, so xargs and env count wherever they stand behind it."""
    names = [base_name(value) if value else "" for value in values]
    far = [at for at in range(found.free_from + 1, len(values)) if names[at] in ("xargs", "env")]
    for at in far[:_MOST_NESTED]:
        name = names[at]
        wrapped = wrapped_by(values, at)
        if wrapped is None or at in found.heads:
            continue
        if name == "xargs" and found.xargs < 0:
            found = found._replace(xargs=at)
        if wrapped.replaced and wrapped.replaced not in found.replaced:
            found = found._replace(replaced=(*found.replaced, wrapped.replaced))
        if wrapped.split >= 0 and not found.splits:
            found = found._replace(splits=(wrapped.split,))
        if wrapped.folder:
            found = found._replace(folders=(*found.folders, wrapped.folder))
    return found if len(far) <= _MOST_NESTED else found._replace(unknown=found.unknown or _TOO_MANY)


def _leads_on(name: str) -> bool:
    return name in DISPATCHERS or name in _WRAPPERS or name in RUNNERS or name == "env"


def _runs_from(values: Values, core: int) -> int:
    """Where the command begins that the program at `core` runs, if it is one of `RUNNERS`."""
    verbs = RUNNERS.get(base_name(values[core] or "")) if core < len(values) else None
    if verbs is None:
        return -1
    if not verbs:
        return core + 1
    return next(
        (at + 1 for at in range(core + 1, len(values)) if values[at] is None or values[at] in verbs), -1
    )


def _dispatched(values: Values, at: int) -> Wrapped | None:
    """The first word of a dispatcher that is not an option, nor the value of one we know."""
    head = values[at]
    if head is None or base_name(head) not in DISPATCHERS:
        return None
    name = base_name(head)
    operand = _first_operand(values, at + 1, _DISPATCHER_VALUED.get(name, frozenset[str]()))
    unknown = ""
    if _reads_commands(name, values[at + 1 :], alone=operand == len(values)):
        unknown = f"{name} runs what it reads"
    return Wrapped(operand, unknown, transparent=False)


def _reads_commands(name: str, words: Values, *, alone: bool) -> bool:
    """Whether a dispatcher without a command takes one from its input."""
    if name in ("su", "runuser"):
        return not any(_SU_TEXT.match(word or "") for word in words)
    if name in ("sudo", "doas"):
        return alone and any(_STARTS_SHELL.match(word or "") for word in words)
    return name == "parallel" and alone


def _first_operand(values: Values, at: int, valued: frozenset[str]) -> int:
    while at < len(values):
        value = values[at]
        if value is None or not (value.startswith("-") or _ASSIGNMENT.match(value)):
            break
        at += 2 if value in valued else 1
    return min(at, len(values))


def replaced_words(values: Sequence[str | None], texts: Sequence[str]) -> tuple[str | None, ...]:
    """The words with those made unknown in which xargs or find puts something."""
    return tuple(
        None if value is not None and any(text in value for text in texts) else value for value in values
    )
