"""The one entry point: what the whole chain of policies says about one call.

Each policy decides alone and the strictest wins; whatever is still `ask` when nobody can be asked is `deny`.
Paths go through `paths`, every other tool through `table`. Bash has no parser yet (it comes with issue 4), so
nothing about a command can be shown to be covered: it is asked, denied in plan mode, and allowed only by a
blanket allow rule or dontAsk, and never when a deny or ask rule might speak of it. Until then a URL is judged
by the table only.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from gencode.core.errors import UnknownName
from gencode.core.rules import Action, Decision, Mode, Policy, Rule, strictest
from gencode.core.spec import same_name
from gencode.permissions.calls import CallFacts, speaks_of
from gencode.permissions.paths import (
    PATH_TOOLS,
    Resolved,
    decide_path,
    described,
    resolve,
    resolve_glob,
)
from gencode.permissions.secrets import deceptive_character
from gencode.permissions.table import TABLE_TOOLS, decide_table

KNOWN_TOOLS = frozenset({*PATH_TOOLS, *TABLE_TOOLS, "Bash"})
"""Every tool the specification speaks of, also those that are not built yet."""

_BY_KEY = {same_name(tool): tool for tool in KNOWN_TOOLS}
_PATH_FIELDS = ("file_path", "path")
_HERE_BY_DEFAULT = frozenset({"LS", "Grep", "Glob"})
_EVERY_TEXT_IS_A_PATH = frozenset({"delete_file", "move_file"})
_MOST_COMMAND = 32_768
_REACHES_BASH = frozenset({"bash", "read", "write", "edit", "*"})


def decide(call: CallFacts, chain: Sequence[Policy]) -> Decision:
    """Allow, ask or deny one call under every policy of the chain, the root first, the caller's own last."""
    if not chain:
        return Decision(
            Action.DENY, f"{call.tool}: there is no policy to decide by.", lifts="nothing lifts this"
        )
    call = _canonical(call)
    nobody = call.background or not call.answerable
    paths = _paths(call) if call.tool in PATH_TOOLS else ()
    last = len(chain) - 1
    decisions: list[Decision] = []
    for at, policy in enumerate(granted(chain, call.grant)):
        # From the root down: an unattended child must not free its ancestors from being asked.
        nobody = nobody or policy.mode is Mode.UNATTENDED
        decisions.append(_alone(call, policy, paths, own_mode=0 < last == at, nobody=nobody))
    worst = strictest(decisions)
    if worst.action is Action.ASK and nobody:
        why = f"{worst.why} It would be asked, but nobody can be asked here."
        return replace(worst, action=Action.DENY, why=why)
    return worst


def check_tool(name: str, also: Collection[str] = ()) -> None:
    """Refuse a tool in a rule that neither the specification nor `also` knows: it would protect nothing."""
    known = name == "*" or name.startswith(("mcp__", "json_", "base64_")) or same_name(name) in _BY_KEY
    if not known and name not in also:
        raise UnknownName("tool", name, {*KNOWN_TOOLS, *also})


def granted(chain: Sequence[Policy], mode: Mode | None) -> Sequence[Policy]:
    """A chain as it counts after a person granted its last policy `mode`.

    The ancestors in default or acceptEdits count with that mode; plan, unattended and every rule stay.
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
    known = _BY_KEY.get(same_name(call.tool))
    return call if known in (None, call.tool) else replace(call, tool=known)


def _alone(
    call: CallFacts, policy: Policy, paths: tuple[Resolved, ...], *, own_mode: bool, nobody: bool
) -> Decision:
    """One policy's decision. A tool from outside that bears a built-in name has to satisfy both."""
    if call.tool == "Bash":
        named = _decide_bash(call, policy)
    elif call.tool in PATH_TOOLS:
        named = strictest(
            decide_path(call.tool, path, policy, call.workspace, call.aliases) for path in paths
        )
    else:
        return decide_table(call, policy, own_mode=own_mode, nobody=nobody)
    if call.source == "builtin":
        return named
    return strictest((named, decide_table(call, policy, own_mode=own_mode, nobody=nobody)))


def _paths(call: CallFacts) -> tuple[Resolved, ...]:
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


def _decide_bash(call: CallFacts, policy: Policy) -> Decision:
    blanket = {rule.action: rule for rule in policy.rules if rule.blanket and speaks_of(rule, call)}
    if rule := blanket.get(Action.DENY):
        return _bash(policy, Action.DENY, f"the rule {described(rule)} matches", rule)
    if policy.mode is Mode.PLAN:
        return _bash(policy, Action.DENY, "plan mode only reads, and a command cannot be shown to only read")
    if rule := blanket.get(Action.ASK):
        return _bash(policy, Action.ASK, f"the rule {described(rule)} matches", rule)
    command = call.input.get("command")
    if not isinstance(command, str) or not command.strip() or len(command) > _MOST_COMMAND:
        return _bash(policy, Action.ASK, "the command cannot be read")
    if bad := deceptive_character(command, allowed="\t\n"):
        return _bash(policy, Action.ASK, f"the command has the deceptive character U+{ord(bad):04X}")
    if rule := _might_match(call, policy):
        return _bash(policy, Action.ASK, f"the rule {described(rule)} might match", rule)
    if policy.mode is Mode.DONT_ASK:
        return _bash(policy, Action.ALLOW, "the mode dontAsk allows what no rule forbids")
    if rule := blanket.get(Action.ALLOW):
        return _bash(policy, Action.ALLOW, f"the rule {described(rule)} matches", rule)
    return _bash(policy, Action.ASK, "a command is asked")


def _might_match(call: CallFacts, policy: Policy) -> Rule | None:
    """The first deny or ask rule that a command could fall under in some way that only a parser can tell."""
    for rule in policy.rules:
        reaches = rule.tool.casefold() in _REACHES_BASH or speaks_of(rule, call)
        if rule.action is not Action.ALLOW and reaches:
            return rule
    return None


_BASH_LIFTS = {
    Action.ALLOW: "",
    Action.ASK: '--allow "Bash"',
    Action.DENY: "another permission mode than plan",
}


def _bash(policy: Policy, action: Action, why: str, rule: Rule | None = None) -> Decision:
    lifts = _BASH_LIFTS[action]
    if rule is not None and action is not Action.ALLOW:
        lifts = f"nothing lifts this but removing the rule {rule}"
    return Decision(action, f"Bash: {why}.", described(rule) if rule else "", policy.owner, lifts)
