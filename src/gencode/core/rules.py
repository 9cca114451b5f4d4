"""Permission rules, modes, policies, and the decision they lead to.

This room only knows the vocabulary and how rules are spelled and merged. What a rule means for a path, a
command or a URL is decided in `permissions/`.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gencode.core.errors import UserMistake, nearest


class Action(StrEnum):
    """What a rule or a decision says; `deny` is the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
"""By their own names, for what is decided at every call: Python 3.11 looks members of a class up slowly."""

Effect = Literal["read", "write", "execute", "delegate"]
"""What a call may do: look, change files, run programs, or send an agent."""

_STRICTNESS = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}


class Mode(StrEnum):
    """A named policy; `permissions/` holds what each one means."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    DONT_ASK = "dontAsk"
    UNATTENDED = "unattended"


SERVERS = "mcp__"
"""How the names of all tools of MCP servers begin."""
_NOT_EXACT = frozenset('*"()')


class RuleSource(StrEnum):
    """What kind of place a rule was written in."""

    UNKNOWN = "unknown"
    FILE = "file"
    """A settings file or an agent's file."""
    ENVIRONMENT = "environment"
    FLAG = "flag"
    """Given for one run: on the command line, or by the program that opened this session."""
    ANSWER = "answer"
    """A person's answer to a question."""
    OUTPUT = "output"
    """A file that was written for the agent that may read it."""


class RuleOrigin(Struct, frozen=True, cache_hash=True, gc=False, omit_defaults=True):
    """Where a rule was written: the kind of place, and its name (a file, a variable, a flag).

    `link`: the pattern that is written there, where a symbolic link leads from it to that of the rule.
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

    A call that one of `unless` covers, as an allow rule would, is none it speaks of. Only agents' files make
    such rules, and only to ask or to deny.
    """

    tool: str
    pattern: str
    action: Action
    origin: RuleOrigin = field(default=UNKNOWN_ORIGIN, name="from")
    unless: tuple[str, ...] = ()
    old_origin: str = field(default="", name="origin")
    """Where version 0.1 says that it was written; `core/old_events.py` makes an `origin` of it."""

    def __str__(self) -> str:
        but = f" but {', '.join(self.unless)}" if self.unless else ""
        return f"{self.action} {self.tool}({self.pattern}{but})"

    @property
    def spelled(self) -> str:
        """The rule as it is written in settings and flags, without its action."""
        return self.tool if self.blanket else f"{self.tool}({self.pattern})"

    @property
    def blanket(self) -> bool:
        """Whether it speaks of every call of its tool."""
        return self.pattern in ("", "*") and not self.unless

    @property
    def exact(self) -> bool:
        """Whether it names one thing only, in characters that mean the same wherever a rule is written."""
        return not self.blanket and _NOT_EXACT.isdisjoint(self.pattern)

    def names(self, tool: str) -> bool:
        """Whether it speaks of this tool at all."""
        if self.tool == "*" or self.tool.casefold() == tool.casefold():
            return True
        return self.tool.startswith(SERVERS) and _of_server(self.tool, tool)


def _of_server(pattern: str, tool: str) -> bool:
    """Whether a tool of an MCP server is one that a rule means: `mcp__git`, `mcp__git__*`, `mcp__*__read`."""
    tool, pattern = tool.casefold(), pattern.casefold()
    return tool.startswith(f"{pattern}__") or ("*" in pattern and fnmatchcase(tool, pattern))


class Policy(Struct, frozen=True, cache_hash=True, gc=False):
    """What one seat of the chain may do. `owner` is shown when a decision is explained."""

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
    """It needs approval, and nobody can give that in this run."""
    SILENCE = "silence"
    """It needs approval, somebody was asked, and nobody answered in time."""
    HOOK = "hook"
    """A hook of the user's."""

    @property
    def lacks_approval(self) -> bool:
        """Whether a call was refused only because nobody approved it in time, or could have."""
        return self in (DecidedBy.NOBODY, DecidedBy.SILENCE)


class Remedy(StrEnum):
    """What would let a call through that is refused or needs approval."""

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
    """Only that the rule is removed by which it was decided."""
    OTHER_MODE = "other_mode"
    """Another permission mode than plan."""
    REWRITE = "rewrite"
    """Only that the command is written in another way."""
    NAME_TOOL = "name_tool"
    """An agent file that names the tool."""
    OTHER_AGENT = "other_agent"
    """An agent whose tools include it."""
    SERVER = "server"
    """The server that has the tool."""
    APPROVAL = "approval"
    """The approval of a person."""


class Decision(Struct, frozen=True, omit_defaults=True):
    """Allow, ask or deny; why; the rule and the policy that made it so; and who decided.

    `neutral`: if it is a command, it may only run where nothing that a repository names is started. `said` is
    the reason that a person gave. `offers` are the allow rules that together would lift it (none: no rule
    does), `removes` is the rule that would have to go, and `remedy` says which of these or what else would.
    `grants` is the wider mode that an agent gets when a person approves that it is sent. What is in `why` is
    only there to be read: nothing is decided by it.
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
    """What version 0.1 said would lift it; only `core/old_events.py` reads that."""

    @property
    def lasting(self) -> tuple[Rule, ...]:
        """What an approval may allow beyond this call: the offers, unless one is wider than the call."""
        return self.offers if all(rule.exact for rule in self.offers) else ()


class Grant(Struct, frozen=True):
    """A person's answer that lets one child (and what is below it) count with a wider mode."""

    mode: Mode


def needs_removal(decision: Decision, rule: Rule | str) -> Decision:
    """A decision that stands as long as a rule does."""
    return replace(decision, remedy=Remedy.REMOVE_RULE, removes=str(rule))


def stricter(first: Decision, second: Decision) -> Decision:
    """The stricter of two decisions; the first when they are alike."""
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
    """Several lists of rules as one, without repeats. Order never matters, so this is only tidiness."""
    return tuple(dict.fromkeys(rule for several in rules for rule in several))


def child_policy(parent: Policy, mode: Mode | None, rules: Iterable[Rule], owner: str) -> Policy:
    """The policy of an agent: its file's mode (else its parent's), its rules, its parent's allow rules.

    The parent's own policy stays in the chain and still decides for itself, so nothing here can widen it.
    """
    inherited = (rule for rule in parent.rules if rule.action is Action.ALLOW)
    return Policy(mode or parent.mode, merge(rules, inherited), owner)
