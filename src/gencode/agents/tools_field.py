"""Agents room: the field `tools` in all the shapes people give it.

A text with commas, a list, `*`, our own `{mode, allow, deny}`, or a mapping of names to true and false. What
cannot be understood gives no tools at all.
"""

from typing import Any, cast

from gencode.agents.agent_fields import LONGEST_LIST, Fields
from gencode.agents.entries import denials, entries_of, switch
from gencode.agents.tool_lists import EVERY, RequestedTools
from gencode.agents.tool_names import tools_called
from gencode.core.spec import same_name
from gencode.runtime.prompt import one_line

_PARTS = ("mode", "allow", "deny")
_WORDS = {
    **dict.fromkeys(("allow", "allowed", "include", "included", "only"), "allow"),
    **dict.fromkeys(("deny", "denied", "disallow", "disallowed", "exclude", "excluded", "block"), "deny"),
    "ask": "ask",
}
"""Words for lists of tools that other products know."""


def requested_tools(fields: Fields) -> RequestedTools:
    """What a file says about its tools."""
    wanted = _tools(fields)
    if "allowed-tools" in fields.values:
        wanted = _with_allowed(fields, wanted)
    denied = _denied(fields)
    deny = tuple(dict.fromkeys((*wanted.deny, *denied)))
    lines = (fields.line("tools") or fields.line("allowed-tools"), fields.line("disallowed-tools"))
    return RequestedTools(wanted.allow, deny, lines[0], lines[1] or lines[0])


def switched(fields: Fields, field: str, switches: dict[str, Any]) -> RequestedTools:
    """Tools that are switched on and off by name.

    Where nothing is switched off the names are a list: its author may have meant no more than these. So are
    they where a switch is neither on nor off.
    """
    on = [name for name, value in switches.items() if switch(value)]
    off = [name for name, value in switches.items() if switch(value) is False]
    odd = [name for name in switches if name not in on and name not in off]
    for name in odd:
        fields.say("bad-value", f"{one_line(name, 64)} is neither true nor false", fields.line(field))
    if EVERY in off or odd:
        return RequestedTools(
            tuple(name for name in on if name != EVERY), tuple(each for each in off if each != EVERY)
        )
    if not on or off or EVERY in on:
        return RequestedTools(None, tuple(off))
    said = "it only switches tools on, so it has these and no others"
    fields.say("tools-switched-on", said, fields.line(field))
    return RequestedTools(tuple(on))


def _tools(fields: Fields) -> RequestedTools:
    if "tools" not in fields.values:
        return RequestedTools()
    value = fields.values["tools"]
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        if fields.strict or all(key in _PARTS for key in parts):
            return _ours(fields, parts)
        if any(same_name(key) in _WORDS and isinstance(each, list | str) for key, each in parts.items()):
            return _sorted_lists(fields, parts)
        return switched(fields, "tools", parts)
    allow, deny = _names(fields, "tools", value)
    return RequestedTools(tuple(allow), tuple(deny))


def _sorted_lists(fields: Fields, parts: dict[str, Any]) -> RequestedTools:
    """Lists of tools under words such as allow, include and exclude. What is only asked is not given."""
    lists: dict[str, list[str]] = {}
    for key, value in parts.items():
        kind = _WORDS.get(same_name(key), "")
        if kind == "deny":
            lists.setdefault(kind, []).extend(denials(value))
        elif kind == "allow":
            allow, deny = _names(fields, "tools", value)
            lists.setdefault(kind, []).extend(allow)
            lists.setdefault("deny", []).extend(deny)
        else:
            said = f"tools.{one_line(key, 64)} is not understood, so it has only what is allowed"
            fields.say("bad-value", said, fields.line("tools"))
            lists.setdefault("allow", [])
    allow = lists.get("allow")
    return RequestedTools(None if allow is None else tuple(allow), tuple(lists.get("deny", ())))


def _ours(fields: Fields, parts: dict[str, Any]) -> RequestedTools:
    for key in parts:
        if key not in _PARTS:
            fields.refuse("tools", f"tools has no part {one_line(key, 64)!r}, only {', '.join(_PARTS)}")
    if fields.strict:
        fields.texts("tools", parts.get("deny"))
    deny = tuple(denials(parts.get("deny")))
    mode = parts.get("mode") or ("denylist" if "deny" in parts and "allow" not in parts else "allowlist")
    if mode == "denylist":
        if parts.get("allow"):
            fields.refuse("tools", "tools.allow contradicts the mode denylist; take one of them out")
        return RequestedTools(None, deny)
    if mode != "allowlist":
        said = f"tools.mode must be allowlist or denylist, not {one_line(str(mode), 64)!r}"
        fields.refuse("tools", said)
    allow, taken = _names(fields, "tools", parts.get("allow"))
    return RequestedTools(tuple(allow), (*deny, *taken))


def _with_allowed(fields: Fields, wanted: RequestedTools) -> RequestedTools:
    """`allowed-tools` belongs in skills. In an agent it can only narrow."""
    line = fields.line("allowed-tools")
    names, denied = _names(fields, "allowed-tools", fields.values["allowed-tools"])
    allowed, deny = tuple(names), (*wanted.deny, *denied)
    if wanted.allow is None or EVERY in wanted.allow:
        fields.say("allowed-tools", "allowed-tools was read as tools", line)
        return RequestedTools(allowed, deny)
    if fields.strict:
        fields.refuse("allowed-tools", "tools and allowed-tools are both given; keep tools")
    fields.say("allowed-tools", "tools and allowed-tools are both given; it has what is in both", line)
    both = {name for each in allowed for name in tools_called(each) or (each,)}
    kept = (each for each in wanted.allow if EVERY in allowed or {*(tools_called(each) or (each,))} & both)
    return RequestedTools(tuple(kept), deny)


def _names(fields: Fields, field: str, value: Any) -> tuple[list[str], list[str]]:
    """The tools that a field names, and those that it takes away among them."""
    if fields.strict:
        fields.texts(field, value)
    found = entries_of(value)
    if found is None:
        fields.wrong(field, f"{field} must be names of tools")
        return [], []
    kept = [name for name in found.names if len(name) <= LONGEST_LIST and name.isprintable()]
    if len(kept) < len(found.names):
        fields.wrong(field, f"{field} holds a text that is too long or cannot be seen")
    for odd in found.odd:
        fields.wrong(field, f"{field} holds {one_line(odd, 64)}, which is not the name of a tool")
    return kept, denials([*found.denied])


def _denied(fields: Fields) -> list[str]:
    value = fields.values.get("disallowed-tools")
    if fields.strict:
        fields.texts("disallowed-tools", value)
    if value is not None and not isinstance(value, str | list | bool):
        fields.wrong("disallowed-tools", "disallowed-tools must be names of tools")
        return [EVERY]
    return denials(value)
