"""The entry point of permissions: decides about one call under a whole chain of policies.

Each policy decides alone and the strictest wins; an `ask` that nobody can approve becomes `deny`.
Paths go through `paths`, commands through `bash`, every other tool through `table`. A call that fetches is
also denied by every policy when the text of its URL already is; its addresses are judged when it connects.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gencode.core.errors import UnknownName
from gencode.core.rules import Action, DecidedBy, Decision, Mode, Policy, Remedy, stricter, strictest
from gencode.core.spec import same_name
from gencode.core.structs import replace
from gencode.permissions.calls import FETCH_TOOLS, CallFacts
from gencode.permissions.paths import (
    PATH_TOOLS,
    Resolved,
    decide_path,
    places_of,
    resolve,
    resolve_glob,
)
from gencode.permissions.tool_table import TABLE_TOOLS, decide_table
from gencode.permissions.urls import UrlRefused, judge_url

NEEDS_APPROVAL = "This needs approval, and nobody can approve it in this run"
KNOWN_TOOLS = frozenset({*PATH_TOOLS, *TABLE_TOOLS, "Bash"})
"""Every tool the specification speaks of, also those that are not built yet."""

_BY_KEY = {same_name(tool): tool for tool in KNOWN_TOOLS}
_PATH_FIELDS = ("file_path", "path")
_HERE_BY_DEFAULT = frozenset({"LS", "Grep", "Glob"})
_EVERY_TEXT_IS_A_PATH = frozenset({"delete_file", "move_file"})


def decide(call: CallFacts, chain: Sequence[Policy]) -> Decision:
    """Allow, ask or deny one call under every policy of the chain, the root first, the caller's own last."""
    if not chain:
        return Decision(Action.DENY, f"{call.tool}: there is no policy to decide by.", remedy=Remedy.NOTHING)
    first, *others = decide_each(call, chain)
    worst, neutral = first, first.neutral
    for decision in others:
        worst = stricter(worst, decision)
        neutral = neutral or decision.neutral
    if neutral and not worst.neutral:
        worst = replace(worst, neutral=True)
    if worst.action is Action.ASK and _nobody(call, chain):
        why = f"{NEEDS_APPROVAL}. {worst.why}"
        return replace(worst, action=Action.DENY, why=why, by=DecidedBy.NOBODY)
    return worst


def _nobody(call: CallFacts, chain: Sequence[Policy]) -> bool:
    """Whether nobody can approve a call."""
    unattended = any(policy.mode is Mode.UNATTENDED for policy in granted(chain, call.grant))
    return unattended or call.background or not call.answerable


def decide_each(call: CallFacts, chain: Sequence[Policy]) -> list[Decision]:
    """The decision of every policy of the chain on its own, before it matters whether anybody can approve."""
    call = _canonical(call)
    if call.web_read_hosts and chain[-1].mode is not Mode.PLAN:
        call = replace(call, web_read_hosts=())
    nobody = call.background or not call.answerable
    paths = paths_of(call) if call.tool in PATH_TOOLS else ()
    last = len(chain) - 1
    decisions: list[Decision] = []
    for at, policy in enumerate(granted(chain, call.grant)):
        # From the root down: an unattended child must not free its ancestors from being asked.
        nobody = nobody or policy.mode is Mode.UNATTENDED
        decisions.append(_alone(call, policy, paths, own_mode=0 < last == at, nobody=nobody))
    return decisions


def check_tool(name: str, also: Collection[str] = ()) -> None:
    """Refuse a tool in a rule that neither the specification nor `also` knows: it would protect nothing."""
    known = name == "*" or name.startswith(("mcp__", "json_", "base64_")) or same_name(name) in _BY_KEY
    if not known and name not in also:
        raise UnknownName("tool", name, {*KNOWN_TOOLS, *also})


def granted(chain: Sequence[Policy], mode: Mode | None) -> Sequence[Policy]:
    """The chain in force after a person granted its last policy `mode`.

    The ancestors in default or acceptEdits get that mode; plan, unattended and every rule stay.
    Whoever builds the chains of a granted child's own children starts from this one, not from the bare one.
    """
    if mode is None:
        return chain
    widened = [
        replace(policy, mode=mode) if policy.mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS) else policy
        for policy in chain[:-1]
    ]
    return (*widened, *chain[-1:])


def _canonical(call: CallFacts) -> CallFacts:
    if call.tool in KNOWN_TOOLS:
        return call
    known = _BY_KEY.get(same_name(call.tool))
    return call if known is None else replace(call, tool=known)


def _alone(
    call: CallFacts, policy: Policy, paths: tuple[Resolved, ...], *, own_mode: bool, nobody: bool
) -> Decision:
    """One policy's decision. A tool from outside that bears a built-in name has to satisfy both."""
    if call.tool == "Bash":
        # A fifth of what loading this module would cost, and most questions need no command at all.
        from gencode.permissions.bash.decision import decide_command, read_command

        reading = read_command(call.input.get("command"), places_of(call.workspace))
        named = decide_command(reading, policy, call.aliases)
    elif call.tool in PATH_TOOLS:
        named = strictest(
            decide_path(call.tool, path, policy, call.workspace, call.aliases) for path in paths
        )
    else:
        by_table = decide_table(call, policy, own_mode=own_mode, nobody=nobody)
        if call.tool not in FETCH_TOOLS:
            return by_table
        return strictest((by_table, *_refused_url(call, policy)))
    if call.source == "builtin":
        return named
    return strictest((named, decide_table(call, policy, own_mode=own_mode, nobody=nobody)))


def _refused_url(call: CallFacts, policy: Policy) -> tuple[Decision, ...]:
    """The denial of a URL that nothing may fetch, as far as its text tells."""
    url = call.input.get("url")
    try:
        judge_url(url if isinstance(url, str) else "")
    except UrlRefused as refused:
        why = f"{call.tool}: {refused}"
        return (Decision(Action.DENY, why, policy=policy.owner, remedy=Remedy.NOTHING),)
    return ()


def path_fields(tool: str, arguments: Mapping[str, Any]) -> Collection[str]:
    """Those arguments of a call that are paths."""
    if tool in _EVERY_TEXT_IS_A_PATH:
        return arguments.keys()
    return ("path", "pattern") if tool == "Glob" else _PATH_FIELDS


def paths_of(call: CallFacts) -> tuple[Resolved, ...]:
    """Every path a call would touch, looked up once for the whole chain."""
    arguments, where = call.input, call.workspace
    if call.tool == "Glob":
        return (_glob_base(call),)
    if call.tool in _EVERY_TEXT_IS_A_PATH:
        given = [value for value in arguments.values() if isinstance(value, str)]
        return tuple(resolve(text, where) for text in given) or (_missing(call.tool),)
    fields = [arguments[name] for name in _PATH_FIELDS if arguments.get(name) is not None]
    if not fields:
        return (resolve(".", where) if call.tool in _HERE_BY_DEFAULT else _missing(call.tool),)
    return tuple(resolve(value, where) if isinstance(value, str) else _missing(call.tool) for value in fields)


def _glob_base(call: CallFacts) -> Resolved:
    pattern, folder = call.input.get("pattern"), call.input.get("path")
    if not isinstance(pattern, str) or not isinstance(folder, str | None):
        return _missing(call.tool)
    return resolve_glob(pattern, folder, call.workspace)


def _missing(tool: str) -> Resolved:
    return Resolved("", refusal=f"{tool} needs a path as text")
