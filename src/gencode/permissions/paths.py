"""Decides about paths: what a path means on this disk, and what a file tool may do there.

`resolve` looks at the disk once. `decide_path` looks only where the names of deny and ask rules lead, and
follows the eleven steps of the specification in their order, so that each can be read beside the text.
"""

import os
import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gencode.core.rules import Action, Decision, Mode, Policy, Remedy, Rule, needs_removal, stricter
from gencode.core.spec import Workspace, same_name
from gencode.core.structs import replace
from gencode.permissions.agent_folders import WORKTREES, users_places
from gencode.permissions.links import as_links_lead, follow
from gencode.permissions.patterns import PathPattern, Places, RulePattern, is_exact, rule_pattern
from gencode.permissions.secrets import (
    KERNEL_ROOTS,
    SYSTEM_ROOTS,
    deceptive_character,
    folded,
    holds_own_settings,
    is_protected,
    is_secret,
    is_under,
)

MOST_CHARACTERS = 4_096
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_GLOB_CHARACTERS = re.compile(r"[*?\[{]")
_STRANGE_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")
_CLIMBS = re.compile(r"(?:\A|[/{,])\.\.(?:\Z|[/},])|[{,][/~]")

# The rules that speak of a tool are those of these tools (Read counts for Grep, Write and Edit for both).
_RULE_TOOLS = {
    "Read": frozenset({"read"}),
    "Grep": frozenset({"read", "grep"}),
    "Glob": frozenset({"glob"}),
    "LS": frozenset({"ls"}),
    "get_file_info": frozenset({"ls", "get_file_info"}),
    "Write": frozenset({"write", "edit"}),
    "Edit": frozenset({"write", "edit"}),
    "delete_file": frozenset({"write", "edit", "delete_file"}),
    "move_file": frozenset({"write", "edit", "move_file"}),
}
PATH_TOOLS = frozenset(_RULE_TOOLS)
_WRITING = frozenset({"Write", "Edit", "delete_file", "move_file"})
_SHOWING = frozenset({"Read", "Grep"})


class Resolved(Struct, frozen=True, cache_hash=True):
    """A path as it was written, normalised, and with every link followed (a missing tail is kept).

    `refusal` says why no tool may take it at all. `twin` is the other reading of a path whose `..` follows a
    link: once `..` is taken away first, once the link is followed first; the stricter reading decides.
    """

    text: str
    lexical: str = ""
    real: str = ""
    refusal: str = ""
    special: bool = False
    hard_links: int = 0
    twin: "Resolved | None" = None


@lru_cache(maxsize=64)
def places_of(workspace: Workspace) -> Places:
    """The folders of a workspace; its boundary is fixed once, by whoever started the session."""
    root, home = str(workspace.root), str(workspace.home)
    places = Places(_normal(root), os.path.realpath(root), _normal(home), os.path.realpath(home))
    if workspace.cwd != workspace.root:
        places = places._replace(cwd=_normal(str(workspace.cwd)))
    names = [f"{top}/{path}" for path in workspace.started for top in (places.root, places.real_root)]
    places = places._replace(started=tuple(dict.fromkeys((*names, *map(os.path.realpath, names)))))
    if (copied := workspace.copied) is None:
        return places
    originals = tuple((each.folder, each.home) for each in copied.originals)
    return places._replace(copy=copied.top, originals=originals, narrowing=len(copied.narrowing))


def resolve(path_text: str, workspace: Workspace) -> Resolved:
    """What a path text means here: steps 1 to 3, and the facts the later steps need."""
    path_text = meant(path_text, workspace)
    refusal = _refusal(path_text)
    if refusal:
        return Resolved(path_text, refusal=refusal)
    if path_text == "~" or path_text.startswith("~/"):
        written = str(workspace.home) + path_text[1:]
    elif path_text.startswith("/"):
        written = path_text
    else:
        written = f"{workspace.cwd}/{path_text}"
    lexical = _normal(written)
    found = _look(path_text, lexical, written)
    if found.refusal or ".." not in written.split("/"):
        return found
    other = _look(path_text, lexical, lexical)
    if other.refusal or other.real == found.real:
        return other if other.refusal else found
    return Resolved(
        path_text, lexical, found.real, special=found.special, hard_links=found.hard_links, twin=other
    )


def meant(path_text: str, workspace: Workspace) -> str:
    """The name behind our spelling of one that is not UTF-8 (`\\xff`), if that file is there and no other.

    Only bytes above ASCII are read so: no character that any rule speaks of can be spelled this way. What is
    judged and what is opened both come from here.
    """
    if "\\x" not in path_text:
        return path_text
    spelled = _STRANGE_BYTE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), path_text)
    here = Path(workspace.cwd)
    there = spelled != path_text and not os.path.lexists(here / path_text) and os.path.lexists(here / spelled)
    return spelled if there else path_text


def resolve_glob(pattern: str, folder: str | None, workspace: Workspace) -> Resolved:
    """What a Glob pattern starts from: the part before its first component with a glob character."""
    refusal = _refusal(pattern, allow_tilde_glob=True)
    if refusal:
        return Resolved(pattern, refusal=refusal)
    components = pattern.split("/")
    first = next((at for at, part in enumerate(components) if _GLOB_CHARACTERS.search(part)), len(components))
    base, rest = "/".join(components[:first]), "/".join(components[first:])
    if _CLIMBS.search(rest):
        return Resolved(pattern, refusal="it climbs out with '..' or a new root behind a wildcard")
    if pattern.startswith("/"):
        return resolve(base or "/", workspace)
    if base.startswith("~") or folder is None:
        return resolve(base or ".", workspace)
    if not folder or not base:
        return resolve(folder, workspace)
    return resolve(f"{folder}/{base}", workspace)


def _refusal(text: str, *, allow_tilde_glob: bool = False) -> str:
    if not text:
        return "the path is empty"
    if len(text) > MOST_CHARACTERS:
        return f"the path has more than {MOST_CHARACTERS:,} characters"
    if bad := deceptive_character(text):
        return f"the path has the deceptive character U+{ord(bad):04X}"
    if _URL.match(text):
        return "it is a URL and not a path"
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        first = text.partition("/")[0]
        if not (allow_tilde_glob and _GLOB_CHARACTERS.search(first)):
            return "it is in another user's home directory"
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            return "no file can have such a name"
    return ""


def _normal(path: str) -> str:
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _look(text: str, lexical: str, path: str) -> Resolved:
    real = follow(path)
    if real is None:
        return Resolved(text, lexical, refusal="its links form a loop")
    try:
        info = os.lstat(real)
    except OSError:
        return Resolved(text, lexical, real)
    kind = stat.S_IFMT(info.st_mode)
    special = kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return Resolved(
        text, lexical, real, special=special, hard_links=info.st_nlink if kind == stat.S_IFREG else 0
    )


class _PathRules(NamedTuple):
    deny: tuple[tuple[Rule, PathPattern | RulePattern], ...]
    ask: tuple[tuple[Rule, PathPattern | RulePattern], ...]
    allow: tuple[tuple[Rule, PathPattern | RulePattern], ...]
    exact: tuple[tuple[Rule, PathPattern | RulePattern], ...]


@lru_cache(maxsize=512)
def _path_rules(policy: Policy, tool: str, aliases: tuple[str, ...], places: Places) -> _PathRules:
    spoken = _RULE_TOOLS[tool]
    keys = {same_name(name) for name in (tool, *aliases)}
    sorted_out: dict[Action, list[tuple[Rule, PathPattern | RulePattern]]] = {action: [] for action in Action}
    for rule in policy.rules:
        named = rule.tool == "*" or rule.tool.casefold() in spoken
        strict = rule.action is not Action.ALLOW
        if named or (strict and same_name(rule.tool) in keys):
            pattern = rule_pattern(rule.pattern, rule.unless, places, strict)
            sorted_out[rule.action].append((rule, pattern))
    allow = tuple(sorted_out[Action.ALLOW])
    exact = tuple(pair for pair in allow if is_exact(pair[0].pattern))
    return _PathRules(tuple(sorted_out[Action.DENY]), tuple(sorted_out[Action.ASK]), allow, exact)


def decide_path(
    tool: str, resolved: Resolved, policy: Policy, workspace: Workspace, aliases: tuple[str, ...] = ()
) -> Decision:
    """What one policy says about one tool at one path: steps 1 to 11."""
    places = places_of(workspace)
    policy = as_links_lead(policy, places)
    rules = _path_rules(policy, tool, aliases, places)
    decision = _decide(tool, resolved, policy, places, rules)
    if resolved.twin is None:
        return decision
    return stricter(decision, _decide(tool, resolved.twin, policy, places, rules))


def _decide(tool: str, path: Resolved, policy: Policy, places: Places, rules: _PathRules) -> Decision:
    writing = tool in _WRITING
    verdict = _Verdict(tool, path, policy, places)
    if path.refusal:  # steps 1 to 3
        return verdict.hard(path.refusal)
    names = (path.lexical,) if path.lexical == path.real else (path.lexical, path.real)
    nature = _nature(names)
    if path.special or nature.kernel:  # step 4
        return verdict.hard("it is a device, a pipe, a socket or a view into the kernel")
    if writing and nature.settings:  # step 5
        return verdict.hard("nothing may write into .git or .gen")
    if writing and _is_users(names, places):
        return verdict.hard("agents, skills and settings of yours are read from there, for all folders")
    if writing and nature.system:
        return verdict.hard("nothing may write into a folder of the system")
    if rule := _match(rules.deny, names):  # step 6
        return verdict.ruled(Action.DENY, rule)
    if writing and policy.mode is Mode.PLAN:
        return verdict.of(Action.DENY, "only reading is allowed in this mode", remedy=Remedy.OTHER_MODE)
    if rule := _match(rules.ask, names):  # step 7
        return verdict.ruled(Action.ASK, rule)
    if policy.mode is Mode.DONT_ASK:
        return verdict.of(Action.ALLOW, "the mode dontAsk allows what no rule forbids")
    if guard := _guard(tool, path, nature, places):  # step 8
        if rule := _match(rules.exact, (path.real,)):
            return verdict.ruled(Action.ALLOW, rule)
        return verdict.asked(guard)
    if rule := _match(rules.allow, (path.real,)):  # step 9
        return verdict.ruled(Action.ALLOW, rule)
    if not is_inside(path.real, places.real_root):  # step 10
        return verdict.asked("it is outside the workspace")
    if not writing:  # step 11
        return verdict.of(Action.ALLOW, "reading inside the workspace is allowed")
    if policy.mode is Mode.ACCEPT_EDITS:
        return verdict.of(Action.ALLOW, "the mode acceptEdits allows edits inside the workspace")
    return verdict.asked(f"edits need approval in {policy.mode} mode", or_accept_edits=True)


class _Verdict(NamedTuple):
    """Words for a decision about one path under one policy."""

    tool: str
    path: Resolved
    policy: Policy
    places: Places

    def of(self, action: Action, why: str, *, rule: str = "", remedy: Remedy = Remedy.OFFERS) -> Decision:
        said = f"{self.tool} of {shown(self.path.text)}: {why}."
        return Decision(action, said, rule, self.policy.owner, remedy)

    def asked(self, why: str, *, or_accept_edits: bool = False) -> Decision:
        offers = self.exact_rule()
        if offers:
            remedy = Remedy.OFFERS_OR_ACCEPT_EDITS if or_accept_edits else Remedy.OFFERS
        else:
            remedy = Remedy.NO_RULE_FOR_PATH
            remedy = Remedy.NO_RULE_FOR_PATH_BUT_ACCEPT_EDITS if or_accept_edits else remedy
        return replace(self.of(Action.ASK, why, remedy=remedy), offers=offers)

    def hard(self, why: str) -> Decision:
        return self.of(Action.DENY, why, remedy=Remedy.NOTHING)

    def ruled(self, action: Action, rule: Rule) -> Decision:
        why = f"the rule {described(rule)} matches"
        decided = self.of(action, why, rule=described(rule))
        return decided if action is Action.ALLOW else needs_removal(decided, rule)

    def exact_rule(self) -> tuple[Rule, ...]:
        """The narrowest rule that would allow just this file, if one can name it."""
        real = self.path.real
        inside = real.removeprefix(self.places.real_root.rstrip("/") + "/")
        rule_path = real if "/" not in inside or inside.startswith("~") else inside
        if not is_exact(real) or rule_path != rule_path.strip():
            return ()
        tool = {"Grep": "Read", "get_file_info": "LS"}.get(self.tool, self.tool)
        tool = "Write" if tool in _WRITING and tool != "Edit" else tool
        return (Rule(tool, rule_path, Action.ALLOW),)


class _Nature(NamedTuple):
    """What the names of a path alone say about it."""

    kernel: bool
    settings: bool
    system: bool
    secret: bool
    protected: bool


@lru_cache(maxsize=4096)
def _nature(names: tuple[str, ...]) -> _Nature:
    spelled = [folded(name) for name in names]
    return _Nature(
        kernel=any(is_under(parts, KERNEL_ROOTS) for parts in spelled),
        settings=any(map(holds_own_settings, spelled)),
        system=any(is_under(parts, SYSTEM_ROOTS) for parts in spelled),
        secret=any(map(is_secret, spelled)),
        protected=any(map(is_protected, spelled)),
    )


def _is_users(names: tuple[str, ...], places: Places) -> bool:
    """Whether a path is in a place of the user's own agents, skills and settings, or is a folder above one.

    What lies there counts without trust in every workspace and may start programs. A folder above could be
    moved to where the place is.
    """
    homes = dict.fromkeys((places.home, places.real_home))
    closed = {folded(each) for home in homes for each in users_places(home)}
    tops = [folded(home) for home in homes]
    own = [folded(each) for each in _own_folders(places.home)]
    for parts in map(folded, names):
        if any(_is_below(parts, each) and parts[len(each) : len(each) + 1] != (WORKTREES,) for each in own):
            return True
        above_home = any(_is_below(top, parts) for top in tops)
        if not above_home and any(_is_below(parts, each) or _is_below(each, parts) for each in closed):
            return True
    return False


def _own_folders(home: str) -> tuple[str, ...]:
    """GenCode's own per-user folder, as it is named and as its links lead; the environment may name it."""
    named = os.environ.get("GEN_HOME", "")
    own = f"{home}{named[1:]}" if named.startswith("~/") else named or f"{home}/.gen"
    return (own, os.path.realpath(own))


def _is_below(parts: tuple[str, ...], top: tuple[str, ...]) -> bool:
    return parts[: len(top)] == top


def _guard(tool: str, path: Resolved, nature: _Nature, places: Places) -> str:
    writing = tool in _WRITING
    if (writing or tool in _SHOWING) and nature.secret:
        return "it may hold secrets"
    if writing and nature.protected:
        return "it changes how programs behave"
    if writing and places.started and is_started((path.lexical, path.real), places):
        return "a hook or an MCP server starts it"
    if writing and path.hard_links > 1:
        return "the file has more than one hard link, so it is also somewhere else"
    return ""


def is_started(names: Iterable[str], places: Places) -> bool:
    """Whether one of these absolute paths is a file that a hook or an MCP server starts, in any spelling."""
    started = {folded(each) for each in places.started}
    return any(folded(name) in started for name in names)


def _match(rules: tuple[tuple[Rule, PathPattern | RulePattern], ...], names: tuple[str, ...]) -> Rule | None:
    for rule, pattern in rules:
        for name in names:
            if pattern.matches(name):
                return rule
    return None


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder or lies below it, component by component."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def described(rule: Rule) -> str:
    """A rule with the place it was written at."""
    origin = str(rule.origin)
    return f"{rule} from {origin}" if origin else str(rule)


def shown(text: str, most: int = 200) -> str:
    """Untrusted text for a sentence: quoted, with everything invisible made visible, not too long."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
