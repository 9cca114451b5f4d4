"""Tool schemas as models get them: some providers refuse the whole request for one odd enum."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest

from gencode.agent.ports import Request
from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode
from gencode.core.messages import ToolCall, UserMessage
from gencode.testing import says
from tests.interfaces.mcp_server.offices import office
from tests.providers.dialects import DIALECTS, seen

TYPES = {"string": str, "integer": int}


class Colour(StrEnum):
    """An enum of a plugin."""

    RED = "red"
    NONE = ""


class Step(msgspec.Struct, tag="step"):
    """A record of a plugin, with an enum in it."""

    state: Literal["", "open", "done"]
    colours: list[Colour] = []


class Wait(msgspec.Struct, tag="wait"):
    """Another record of a plugin."""

    unit: Literal["s", "ms"] | None = None


@tool(effect="read", name="Odd")
async def odd(
    ctx: ToolContext,
    how: Annotated[Literal["", "near", "far"], "How"] = "",
    nothing: Literal[""] = "",
    level: Literal[1, 2] = 1,
    either: Literal["all", 3, None] = None,
    colour: Colour | None = None,
    steps: list[Step | Wait] | None = None,
    by_name: dict[str, Literal["", "x"]] | None = None,
    enum: list[str] | None = None,
) -> str:
    """Take every kind of enum there is."""
    return f"{how!r} {colour!r}"


def enums(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every enum in a schema, with where it stands; parameters may be called `enum` too."""
    if isinstance(schema, Mapping):
        entries = cast("Mapping[str, object]", schema)
        for name, inside in entries.items():
            yield from enums(inside, f"{path}/{name}")
            if name == "enum" and isinstance(inside, list):
                yield path, dict(entries)
    elif isinstance(schema, list):
        for number, inside in enumerate(cast("list[object]", schema)):
            yield from enums(inside, f"{path}/{number}")


def refused(schemas: Mapping[str, object]) -> list[str]:
    """Where an enum stands that a provider refuses."""
    return [
        f"{name}{path}"
        for name, schema in schemas.items()
        for path, each in enums(schema)
        if each.get("type") not in TYPES
        or not each["enum"]
        or any(value == "" or not isinstance(value, TYPES[each["type"]]) for value in each["enum"])
    ]


def sent_schemas(dialect: str, body: Mapping[str, Any]) -> dict[str, object]:
    """The schemas of a request by the names of their tools."""
    if dialect == "chat":
        return {each["function"]["name"]: each["function"]["parameters"] for each in body["tools"]}
    key = "input_schema" if dialect == "anthropic" else "parameters"
    return {each["name"]: each[key] for each in body["tools"]}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_enum_that_a_provider_gets_has_a_type_and_no_empty_value(
    tmp_path: Path, dialect: str
) -> None:
    async with GenCode.open(tmp_path, tools=(odd,)) as gen:
        tools = [each.as_schema() for each in gen.toolbox.values()]
        body = await seen(dialect, Request("m", "", [UserMessage("hi")], tools))
    schemas = sent_schemas(dialect, body)
    assert {"Task", "Grep", "TodoWrite", "TaskStop", "cron", "Odd"} <= {*schemas}
    assert refused(schemas) == []
    assert len([*enums(schemas)]) > 10


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_that_may_not_call_has_the_same_tools(tmp_path: Path, dialect: str) -> None:
    free, silent = [
        await seen(dialect, Request("m", "", [UserMessage("hi")], (odd.as_schema(),), may_call=may_call))
        for may_call in (True, False)
    ]
    # The Messages API would forget the cached messages for another tool_choice.
    assert silent.pop("tool_choice", "") == ("" if dialect == "anthropic" else "none")
    assert silent == free and [*sent_schemas(dialect, silent)] == ["Odd"]


async def test_every_enum_that_gen_mcp_offers_has_a_type_and_no_empty_value(tmp_path: Path) -> None:
    async with office(tmp_path, {"*": [says("x")]}) as here, here.client() as client:
        offered = {each.name: each.input_schema for each in (await client.list_tools()).tools}
    assert refused(offered) == []
    isolation = offered["Task"]["properties"]["isolation"]
    assert (isolation["type"], isolation["enum"]) == ("string", ["process", "worktree"])


def test_an_enum_of_several_types_is_one_enum_for_each() -> None:
    properties = odd.schema["properties"]
    assert refused({"Odd": odd.schema}) == []
    assert properties["either"] == {
        "anyOf": [{"type": "string", "enum": ["all"]}, {"type": "integer", "enum": [3]}]
    }
    assert properties["level"] == {"type": "integer", "enum": [1, 2], "default": 1}
    assert properties["nothing"] == {"type": "string"}
    assert properties["enum"] == {"type": "array", "items": {"type": "string"}}


def test_an_empty_value_that_is_not_shown_is_still_accepted() -> None:
    given = odd.parse(ToolCall("c", "Odd", {"how": "", "colour": "", "either": None}))
    assert (getattr(given, "how"), getattr(given, "colour")) == ("", Colour.NONE)  # noqa: B009
