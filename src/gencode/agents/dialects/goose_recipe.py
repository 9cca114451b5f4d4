"""goose recipes: YAML with instructions and a prompt; its name is that of the file, its title a label."""

from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, Parsed, spelled

_SETTINGS = {"goose_model": "model", "temperature": "temperature", "max_turns": "max_turns"}


def prepare(parsed: Parsed) -> Parsed:
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
    notes = parsed.notes
    if fields.get("parameters"):
        notes = (*notes, "its parameters are not filled in; say them in the task")
    return replace(parsed, fields=fields, body=body, notes=notes)


DIALECT = Dialect(
    "goose-recipe",
    project=(".goose/recipes",),
    user=(".config/goose/recipes",),
    endings=(".yaml", ".yml"),
    fields={
        **COMMON,
        **spelled(
            nothing="version title author activities parameters extensions sub_recipes goose_provider retry "
            "settings"
        ),
    },
    prepare=prepare,
)
