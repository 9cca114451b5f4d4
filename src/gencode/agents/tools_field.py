"""Agents room: the field `tools` in all the shapes people give it.

A text with commas, a list, `*`, our own `{mode, allow, deny}`, or a mapping of names to true and false. What
cannot be understood gives no tools at all.
"""

from typing import Any, cast

from gencode.agents.fields import LONGEST_LIST, Fields
from gencode.agents.tool_lists import EVERY, Wanted, listed
from gencode.agents.tool_names import tools_called
from gencode.runtime.prompt import one_line

_PARTS = ("mode", "allow", "deny")


def tools_wanted(fields: Fields) -> Wanted:
    """What a file says about its tools."""
    wanted = _tools(fields)
    if "allowed-tools" in fields.values:
        wanted = _with_allowed(fields, wanted)
    denied = _names(fields, "disallowed-tools", fields.values.get("disallowed-tools"))
    deny = tuple(dict.fromkeys((*wanted.deny, *denied)))
    lines = (fields.line("tools") or fields.line("allowed-tools"), fields.line("disallowed-tools"))
    return Wanted(wanted.allow, deny, lines[0], lines[1] or lines[0])


def switched(fields: Fields, field: str, switches: dict[str, Any]) -> Wanted:
    """Tools that are switched on and off by name.

    Where nothing is switched off the names are a list: its author may have meant no more than these.
    """
    on = [name for name, value in switches.items() if _is(value, True)]
    off = [name for name, value in switches.items() if _is(value, False)]
    for name in switches:
        if name not in on and name not in off:
            fields.say("bad-value", f"{one_line(name, 64)} is neither true nor false", fields.line(field))
            off.append(name)
    if EVERY in off:
        return Wanted(tuple(on), tuple(name for name in off if name != EVERY))
    if not on or off or EVERY in on:
        return Wanted(None, tuple(off))
    said = "it only switches tools on, so it has these and no others"
    fields.say("tools-switched-on", said, fields.line(field))
    return Wanted(tuple(on))


def _is(value: Any, truth: bool) -> bool:
    return value is truth or (isinstance(value, str) and value.casefold() == str(truth).casefold())


def _tools(fields: Fields) -> Wanted:
    if "tools" not in fields.values:
        return Wanted()
    value = fields.values["tools"]
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        ours = all(key in _PARTS for key in parts)
        return _ours(fields, parts) if ours or fields.strict else switched(fields, "tools", parts)
    return Wanted(tuple(_names(fields, "tools", value)))


def _ours(fields: Fields, parts: dict[str, Any]) -> Wanted:
    for key in parts:
        if key not in _PARTS:
            fields.refuse("tools", f"tools has no part {one_line(key, 64)!r}, only {', '.join(_PARTS)}")
    deny = tuple(_names(fields, "tools", parts.get("deny")))
    mode = parts.get("mode") or ("denylist" if "deny" in parts and "allow" not in parts else "allowlist")
    if mode == "denylist":
        if parts.get("allow"):
            fields.refuse("tools", "tools.allow contradicts the mode denylist; take one of them out")
        return Wanted(None, deny)
    if mode != "allowlist":
        said = f"tools.mode must be allowlist or denylist, not {one_line(str(mode), 64)!r}"
        fields.refuse("tools", said)
    return Wanted(tuple(_names(fields, "tools", parts.get("allow"))), deny)


def _with_allowed(fields: Fields, wanted: Wanted) -> Wanted:
    """`allowed-tools` belongs in skills. In an agent it can only narrow."""
    line = fields.line("allowed-tools")
    allowed = tuple(_names(fields, "allowed-tools", fields.values["allowed-tools"]))
    if wanted.allow is None or EVERY in wanted.allow:
        fields.say("allowed-tools", "allowed-tools was read as tools", line)
        return Wanted(allowed, wanted.deny)
    if fields.strict:
        fields.refuse("allowed-tools", "tools and allowed-tools are both given; keep tools")
    fields.say("allowed-tools", "tools and allowed-tools are both given; it has what is in both", line)
    both = {name for each in allowed for name in tools_called(each) or (each,)}
    kept = (each for each in wanted.allow if EVERY in allowed or {*(tools_called(each) or (each,))} & both)
    return Wanted(tuple(kept), wanted.deny)


def _names(fields: Fields, field: str, value: Any) -> list[str]:
    if fields.strict:
        fields.texts(field, value)
    names = listed(value)
    if names is None:
        fields.wrong(field, f"{field} must be names of tools")
        return [EVERY] if field == "disallowed-tools" else []
    kept = [name for name in names if len(name) <= LONGEST_LIST and name.isprintable()]
    if len(kept) < len(names):
        fields.wrong(field, f"{field} holds a text that is too long or cannot be seen")
    return kept
