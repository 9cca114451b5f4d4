"""Repairs front matter that is not valid YAML.

People paste dialogues and bold text into descriptions without quotes. The first repair puts one-line values
that YAML takes for something else in quotes. The second one cuts the block at the names of fields that
agents really have, so that `user:` and `Context:` at the beginning of a line stay in the text around them.
"""

import re
from collections.abc import Mapping
from typing import Any

from gencode.agents.agent_fields import normalized
from gencode.agents.yaml_reader import NotYaml, scalar, yaml_fields
from gencode.core.errors import UserMistake
from gencode.core.spec import same_name

FIELDS = frozenset(
    map(
        same_name,
        [
            "name",
            "description",
            "when-to-use",
            "tools",
            "allowed-tools",
            "disallowed-tools",
            "model",
            "permission-mode",
            "permission",
            "permissions",
            "approval-mode",
            "sandbox-mode",
            "max-turns",
            "steps",
            "max-steps",
            "skills",
            "mcp-servers",
            "mcp_config",
            "hooks",
            "memory",
            "background",
            "effort",
            "isolation",
            "color",
            "colour",
            "initial-prompt",
            "output-schema",
            "budget",
            "mode",
            "temperature",
            "top_p",
            "hidden",
            "disable",
            "override",
            "result-cap",
            "readonly",
            "kind",
            "is_background",
            "user-invocable",
            "disable-model-invocation",
            "infer",
            "target",
            "handoffs",
            "agents",
            "subagents",
            "argument-hint",
            "metadata",
            "version",
            "author",
            "license",
            "tags",
            "category",
            "type",
            "priority",
            "capabilities",
            "triggers",
            "globs",
            "alwaysApply",
            "agent",
            "emoji",
            "vibe",
            "created",
            "updated",
            "domain",
            "timeout_mins",
            "display_name",
            "thinking",
            "provider",
            "avatar",
            "fork",
            "launchProfile",
            "proactive",
            "examples-count",
            "compatibility",
        ],
    )
)
"""Names at which the second repair begins a field."""
_ONCE = frozenset(map(same_name, ("tools", "allowed-tools", "disallowed-tools", "permission-mode", "name")))
"""Fields that must not occur twice, because it would be a guess which one applies."""

_WEIGHTY = frozenset(
    map(
        same_name,
        (
            "tools",
            "allowed-tools",
            "disallowed-tools",
            "exclude-tools",
            "permission",
            "permissions",
            "permission-mode",
            "approval-mode",
            "sandbox-mode",
            "mode",
            "readonly",
            "read_only",
        ),
    )
)
"""Fields that limit what an agent may do; a repair must not make them part of a text."""
_LOOKS = re.compile(r"""[ \t]*["']?(?P<name>[A-Za-z][\w-]{0,40})["']?[ \t]*:""")
_FIELD = re.compile(r"(?P<indent> *)(?P<head>[\w-]+:[ \t]+)(?P<value>\S.*)\Z")
_ITEM = re.compile(r"(?P<indent> *)(?P<head>- +)(?P<value>[*@`%].*)\Z")
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(#.*)?\Z")
_START = re.compile(r"(?P<name>[A-Za-z][\w-]{0,40}):(?P<value>(?:[ \t].*)?)\Z")
_TABS = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)


def quoted(block: str) -> tuple[str, list[int]]:
    """The block with quotes around one-line values that YAML takes for something else, and their lines."""
    lines = _TABS.sub(lambda found: found[0].expandtabs(2), block).split("\n")
    changed: list[int] = []
    at = 0
    while at < len(lines):
        found = _FIELD.match(lines[at]) or _ITEM.match(lines[at])
        first, at = at, at + 1
        if found is None:
            continue
        deeper = at
        while deeper < len(lines) and _belongs(lines[deeper], len(found["indent"])):
            deeper += 1
        value = found["value"].rstrip()
        if _BLOCK.match(value):
            at = deeper
        elif _misleading(value):
            whole = " ".join([value, *(line.strip() for line in lines[at:deeper])]).strip()
            lines[first] = f"{found['indent']}{found['head']}'{whole.replace(chr(39), chr(39) * 2)}'"
            lines[at:deeper] = [""] * (deeper - at)
            changed.append(first + 1)
            at = deeper
    return "\n".join(lines), changed


def split_at_fields(block: str, path: str, before: int) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of a block that begin at names which agents have; everything between belongs to them.

    Unreadable if there is no such name at the top, or if one that must be there once is there twice.
    """
    found: dict[str, tuple[int, list[str]]] = {}
    keys: set[str] = set()
    current: list[str] | None = None
    for number, line in enumerate(block.split("\n"), start=1):
        start = _START.match(line)
        key = same_name(start["name"]) if start else ""
        if start is not None and key in FIELDS and key not in keys:
            keys.add(key)
            current = [line]
            found[start["name"]] = (number, current)
        elif start is not None and key in keys and key in _ONCE:
            raise NotYaml(f"the field {start['name']!r} is given twice", number)
        elif current is not None:
            current.append(line)
        elif line.strip() and not line.startswith("#"):
            raise NotYaml("it does not begin with a field", number)
    values = {name: _value(lines, path, before + number) for name, (number, lines) in found.items()}
    return values, {name: number + before for name, (number, _) in found.items()}


def swallowed(block: str, fields: Mapping[str, Any], lines: Mapping[str, int], before: int) -> int | None:
    """The line of a limiting field that a repair made part of another field's text; None: there is none.

    Texts in literal blocks stay as they are, and lines below a field with subfields have their own meaning.
    """
    begins = {line - before: name for name, line in lines.items()}
    texts = False
    for number, line in enumerate(block.split("\n"), start=1):
        if number in begins:
            texts = isinstance(fields[begins[number]], str) and not _BLOCK.match(
                line.partition(":")[2].strip()
            )
            continue
        looks = _LOOKS.match(normalized(line))
        if texts and looks and same_name(looks["name"]) in _WEIGHTY:
            return number + before
    return None


def _value(lines: list[str], path: str, line: int) -> Any:
    """One field as YAML where it is YAML, else its text."""
    for block in ("\n".join(lines), quoted("\n".join(lines))[0]):
        try:
            fields, _ = yaml_fields(block, path, line - 1)
        except NotYaml:
            continue
        except UserMistake:
            break
        if len(fields) == 1:
            return next(iter(fields.values()))
    text = "\n".join([lines[0].partition(":")[2].strip(), *lines[1:]]).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return scalar(text)


def _belongs(line: str, indent: int) -> bool:
    """Whether a line continues a value whose field is indented so far."""
    return not line.strip() or len(line) - len(line.lstrip(" ")) > indent


def _misleading(value: str) -> bool:
    if value[0] in "\"'[{|>&#" or value.startswith("!!"):
        return False
    return value[0] in "*@`%!" or ": " in value or value.endswith(":")
