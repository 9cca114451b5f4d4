"""goose recipes: YAML with instructions and a prompt; its name is that of the file, its title a label.

Parameters with a default are filled in; the others come with the task, and the agent is told so.
"""

import re
from typing import Any, cast

from gencode.agents.dialect import COMMON, Dialect, ParsedFile, field_names
from gencode.agents.file_errors import recovered
from gencode.core.structs import replace

_SETTINGS = {"goose_model": "model", "temperature": "temperature", "max_turns": "max_turns"}
_PLACE = re.compile(r"\{\{ *(\w{1,64})(?: *\| *indent\([^(){}]{0,20}\))? *\}\}")
_FROM_THE_TASK = "The task says what these names in double braces stand for; where it does not, find it out:"


def prepare(parsed: ParsedFile) -> ParsedFile:
    """Instructions and prompt are the text; a schema for the answer and the settings are fields."""
    fields = dict(parsed.fields)
    told = [fields.pop(name, None) for name in ("instructions", "prompt")]
    body = "\n\n".join(text for text in told if isinstance(text, str))
    fields.pop("name", None)
    settings = fields.pop("settings", None)
    if isinstance(settings, dict):
        given = cast("dict[str, Any]", settings)
        for name in [each for each in given if each in _SETTINGS]:
            fields.setdefault(_SETTINGS[name], given[name])
        if rest := {name: value for name, value in given.items() if name not in _SETTINGS}:
            fields["settings"] = rest
    response = fields.pop("response", None)
    if isinstance(response, dict) and "json_schema" in response:
        fields["output-schema"] = cast("dict[str, Any]", response)["json_schema"]
    body, missing = _filled(body, fields.get("parameters"))
    repaired = parsed.repaired
    if missing:
        named = ", ".join(missing)[:200]
        what = f"its parameters {named} have no default; it is told to take them from the task"
        repaired = (*repaired, recovered(what))
        told = "\n".join(f"- {name}: {what}" for name, what in missing.items())
        body = f"{body.rstrip()}\n\n{_FROM_THE_TASK}\n{told}"
    return replace(parsed, fields=fields, body=body, repaired=repaired)


def _filled(body: str, parameters: Any) -> tuple[str, dict[str, str]]:
    """A text with the defaults of its parameters in their places, and what those are that have none."""
    several = cast("list[Any]", parameters) if isinstance(parameters, list) else []
    known = [cast("dict[str, Any]", each) for each in several if isinstance(each, dict)]
    defaults = {
        str(each["key"]): str(each["default"]) for each in known if "key" in each and each.get("default")
    }
    missing = {
        str(each["key"]): str(each.get("description") or "not described")
        for each in known
        if "key" in each and str(each["key"]) not in defaults
    }
    return _PLACE.sub(lambda found: defaults.get(found[1], found[0]), body), missing


DIALECT = Dialect(
    "goose-recipe",
    project=(".goose/recipes",),
    user=(".config/goose/recipes",),
    endings=(".yaml", ".yml"),
    fields={
        **COMMON,
        **field_names(
            nothing="version title author activities parameters extensions sub_recipes goose_provider retry "
            "settings"
        ),
    },
    prepare=prepare,
)
