"""Permission rules, modes, policies, and the decision they lead to.

This module has only the vocabulary, and how rules are spelled and merged. What a rule means for a path, a
command or a URL is decided in `permissions/`.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct, field

from gencode.core.errors import UserMistake, nearest
from gencode.core.structs import replace


class Action(StrEnum):
    """The action of a rule or a decision; `deny` is the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
"""The members by themselves, for the code that runs at every call: Python 3.11 looks up enum members slowly.
"""

Effect = Literal["read", "write", "execute", "delegate"]
"""What a call may do: read, change files, run programs, or start an agent."""

_STRICTNESS = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}


class Mode(StrEnum):
    """A permission mode; `permissions/` defines what each one means."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    DONT_ASK = "dontAsk"
    UNATTENDED = "unattended"


SERVERS = "mcp__"
"""The prefix of the names of all MCP tools."""
_NOT_EXACT = frozenset('*"()')


class RuleSource(StrEnum):
    """The kind of place a rule was written in."""

    UNKNOWN = "unknown"
    FILE = "file"
    """A settings file or an agent's file."""
    ENVIRONMENT = "environment"
    FLAG = "flag"
    """For one run: on the command line, or by the program that opened this session."""
    ANSWER = "answer"
    """A person's answer to a question."""
    OUTPUT = "output"
    """A file that was written for the agent that may read it."""


class RuleOrigin(Struct, frozen=True, cache_hash=True, gc=False, omit_defaults=True):
    """Where a rule was written: the kind of place, and its name (a file, a variable, a flag).

    `link`: the pattern as written, if a symbolic link leads from it to the pattern of the rule.
    """

    source: RuleSource = RuleSource.UNKNOWN
    name: str = ""
    link: str = ""

    def __str__(self) -> str:
        place = self._place()
        return f"{place or 'its policy'} ({self.link} leads there)" if self.link else place

    def _place(self) -> str:
        match self.source:
            case RuleSource.FLAG:
                return f"the flag {self.name}"
            case RuleSource.ANSWER:
                return "a person's answer"
            case RuleSource.OUTPUT:
                return "its own output"
            case RuleSource.FILE | RuleSource.ENVIRONMENT | RuleSource.UNKNOWN:
                return self.name


UNKNOWN_ORIGIN = RuleOrigin()


def written_in(path: str) -> RuleOrigin:
    """The origin of a rule of a settings file or an agent's file."""
    return RuleOrigin(RuleSource.FILE, path)


class Rule(Struct, frozen=True, cache_hash=True, gc=False, omit_defaults=True):
    """`action` for every call of `tool` that `pattern` matches. `origin` says where it was written.

    It does not apply to calls that one of `unless` would allow. Only agents' files make such rules, and only
    to ask or to deny.
    """

    tool: str
    pattern: str
    action: Action
    origin: RuleOrigin = field(default=UNKNOWN_ORIGIN, name="from")
    unless: tuple[str, ...] = ()
    old_origin: str = field(default="", name="origin")
    """The origin as version 0.1 wrote it; `core/old_events.py` makes an `origin` of it."""

    def __str__(self) -> str:
        but = f" but {', '.join(self.unless)}" if self.unless else ""
        return f"{self.action} {self.tool}({self.pattern}{but})"

    @property
    def spelled(self) -> str:
        """The rule as it is written in settings and flags, without its action."""
        return self.tool if self.blanket else f"{self.tool}({self.pattern})"

    @property
    def blanket(self) -> bool:
        """Whether it matches every call of its tool."""
        return self.pattern in ("", "*") and not self.unless

    @property
    def exact(self) -> bool:
        """Whether it names one thing only, with no characters that mean something else elsewhere."""
        return not self.blanket and _NOT_EXACT.isdisjoint(self.pattern)

    def names(self, tool: str) -> bool:
        """Whether it is about this tool."""
        if self.tool == "*" or self.tool.casefold() == tool.casefold():
            return True
        return self.tool.startswith(SERVERS) and _of_server(self.tool, tool)


def _of_server(pattern: str, tool: str) -> bool:
    """Whether a pattern for MCP tools covers a tool: `mcp__git`, `mcp__git__*`, `mcp__*__read`."""
    tool, pattern = tool.casefold(), pattern.casefold()
    return tool.startswith(f"{pattern}__") or ("*" in pattern and fnmatchcase(tool, pattern))


class Policy(Struct, frozen=True, cache_hash=True, gc=False):
    """The mode and rules of one link of the chain. `owner` is shown when a decision is explained."""

    mode: Mode = Mode.DEFAULT
    rules: tuple[Rule, ...] = ()
    owner: str = "session"


class DecidedBy(StrEnum):
    """Who made a decision about a call."""

    RULES = "rules"
    """Rules, modes and the permission table alone."""
    USER = "user"
    """A person who was asked."""
    NOBODY = "nobody"
    """It needs approval, and nobody can approve it in this run."""
    SILENCE = "silence"
    """It needs approval, and nobody answered in time."""
    HOOK = "hook"
    """A hook of the user's."""

    @property
    def lacks_approval(self) -> bool:
        """Whether a call was refused only because nobody approved it in time, or could."""
        return self in (DecidedBy.NOBODY, DecidedBy.SILENCE)


class Remedy(StrEnum):
    """What would allow a call that is refused or needs approval."""

    OFFERS = "offers"
    """The allow rules that the decision offers; without any nothing is needed."""
    OFFERS_OR_ACCEPT_EDITS = "offers_or_accept_edits"
    """These rules, or the mode acceptEdits."""
    NOTHING = "nothing"
    NOTHING_IN_PLAN = "nothing_in_plan"
    NO_RULE_FOR_PATH = "no_rule_for_path"
    """Nothing, since no rule can name its path exactly."""
    NO_RULE_FOR_PATH_BUT_ACCEPT_EDITS = "no_rule_for_path_but_accept_edits"
    """The mode acceptEdits, since no rule can name its path exactly."""
    NO_RULE_FOR_WORDS = "no_rule_for_words"
    """Nothing, since no rule can name the words of its command exactly."""
    REMOVE_RULE = "remove_rule"
    """Only the removal of the rule that decided it."""
    OTHER_MODE = "other_mode"
    """Another permission mode than plan."""
    REWRITE = "rewrite"
    """Only another spelling of the command."""
    NAME_TOOL = "name_tool"
    """An agent file that names the tool."""
    OTHER_AGENT = "other_agent"
    """An agent whose tools include it."""
    SERVER = "server"
    """The server that has the tool."""
    APPROVAL = "approval"
    """The approval of a person."""


class Decision(Struct, frozen=True, omit_defaults=True):
    """Allow, ask or deny; why; the rule and the policy that decided; and who decided.

    `neutral`: a command may run only where nothing that a repository names is started. `said` is a person's
    reason. `offers` are the allow rules that together would allow the call (none: no rule would), `removes`
    is the rule that would have to be removed, and `remedy` says which of these or what else would help.
    `grants` is the wider mode that an agent gets if a person approves its start. `why` is only for people:
    nothing is decided by it.
    """

    action: Action
    why: str
    rule: str = ""
    policy: str = ""
    remedy: Remedy = Remedy.OFFERS
    neutral: bool = False
    by: DecidedBy = DecidedBy.RULES
    said: str = ""
    offers: tuple[Rule, ...] = ()
    removes: str = ""
    grants: Mode | None = None
    old_lifts: str = field(default="", name="lifts")
    """The remedy as version 0.1 wrote it; only `core/old_events.py` reads it."""

    @property
    def lasting(self) -> tuple[Rule, ...]:
        """What an approval may allow beyond this call: the offers, unless one is wider than the call."""
        return self.offers if all(rule.exact for rule in self.offers) else ()


def needs_removal(decision: Decision, rule: Rule | str) -> Decision:
    """A decision that only the removal of a rule changes."""
    return replace(decision, remedy=Remedy.REMOVE_RULE, removes=str(rule))


def stricter(first: Decision, second: Decision) -> Decision:
    """The stricter of two decisions; the first if they are equal."""
    return second if _STRICTNESS[second.action] > _STRICTNESS[first.action] else first


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The strictest of several; at least one is needed."""
    several = iter(decisions)
    worst = next(several)
    for decision in several:
        worst = stricter(worst, decision)
    return worst


_PARENTHESES = re.compile(r"([^():\s]+)\((.*)\)\Z", re.DOTALL)


def parse_rule(text: str, action: Action, origin: RuleOrigin = UNKNOWN_ORIGIN) -> Rule:
    """Read `Bash(git status:*)`, `bash:git status:*` or `Bash`; the three forms are equal in meaning."""
    spelled = text.strip()
    if found := _PARENTHESES.match(spelled):
        tool, pattern = found.groups()
    else:
        tool, _, pattern = spelled.partition(":")
    tool, pattern = tool.strip(), pattern.strip()
    if not tool or re.search(r"[\s()]", tool):
        raise UserMistake(f"{text!r} is not a rule; write it as Tool, Tool(pattern) or tool:pattern.")
    return Rule(tool, pattern or "*", action, origin)


def parse_mode(text: str) -> Mode:
    """A mode by its name, without regard to case and separators."""
    plain = re.sub(r"[-_\s]", "", text).casefold()
    for mode in Mode:
        if mode.value.casefold() == plain:
            return mode
    raise UserMistake(f"There is no permission mode {text!r}. {nearest(text, Mode)}")


def merge(*rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Several lists of rules as one, without repetitions. The order has no meaning."""
    return tuple(dict.fromkeys(rule for several in rules for rule in several))


def child_policy(parent: Policy, mode: Mode | None, rules: Iterable[Rule], owner: str) -> Policy:
    """The policy of an agent: its file's mode (else its parent's), its rules, its parent's allow rules.

    The parent's own policy stays in the chain and still decides for itself, so nothing here can widen it.
    """
    inherited = (rule for rule in parent.rules if rule.action is Action.ALLOW)
    return Policy(mode or parent.mode, merge(rules, inherited), owner)
