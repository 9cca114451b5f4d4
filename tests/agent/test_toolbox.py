"""Tools from functions, and boxes of them."""

from collections.abc import Container
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gencode.agent.toolbox import GrowingToolbox, LazyTool, Param, Tool, Toolbox, ToolContext, tool
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.spec import ToolChoice
from gencode.core.text import clip


@tool(effect="read", name="Look", aliases=("look_at",))
async def look(
    ctx: ToolContext,
    path: Annotated[str, "Where to look"],
    after: Annotated[int | None, Param("Lines after", name="-A")] = None,
    how: Literal["near", "far"] = "near",
) -> str:
    """Look at something."""
    return f"{path} {after} {how}"


@tool(effect="write")
async def scribble(ctx: ToolContext, words: list[str]) -> str:
    """Write some words."""
    return " ".join(words)


BOX = Toolbox([look, scribble])


def test_the_signature_is_the_schema() -> None:
    assert look.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where to look"},
            "-A": {"type": "integer", "description": "Lines after"},
            "how": {"type": "string", "enum": ["far", "near"], "default": "near"},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def parsed(tool: Tool, **given: Any) -> dict[str, Any]:
    arguments = tool.parse(ToolCall("c", tool.name, given))
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}


def test_arguments_are_read_by_their_public_names_and_numbers_in_quotes_are_numbers() -> None:
    assert parsed(look, **{"path": "a", "-A": "3"}) == {"path": "a", "after": 3, "how": "near"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "missing required field `path`"),
        ({"path": 3}, "Expected `str`, got `int` (in `path`)"),
        ({"path": "a", "depth": 1}, "unknown field `depth`"),
        ({"path": "a", "how": "up"}, "Invalid enum value 'up' (in `how`)"),
    ],
)
def test_arguments_that_do_not_fit_name_the_fault_and_the_way_out(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolError) as error:
        parsed(look, **given)
    assert says in str(error.value)
    assert str(error.value).endswith(
        "Look takes path (string, required), -A (integer), how ('far' | 'near')."
    )


def test_arguments_that_were_no_json_are_quoted_back() -> None:
    with pytest.raises(ToolError, match="not a JSON object: '{oops'"):
        look.parse(ToolCall("c", "Look", {}, broken="{oops"))


def test_names_are_found_by_alias_and_without_regard_to_case_and_separators() -> None:
    assert [BOX[name].name for name in ("Look", "LOOK", "look-at", "lookat")] == ["Look"] * 4


def test_an_unknown_tool_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no tool 'scrible'. Did you mean scribble"):
        BOX.find("scrible")


def test_boxes_are_narrowed_and_never_changed() -> None:
    assert list(BOX.only(["scribble", "nothing"])) == ["scribble"]
    assert list(BOX.without(["LOOK"])) == ["scribble"]
    assert list(BOX.read_only()) == ["Look"]
    assert list(BOX.chosen(ToolChoice(("look", "scribble"), ("scribble",)))) == ["Look"]
    assert BOX.missing(ToolChoice(("Look", "WebFetch"))) == ("WebFetch",)
    assert list(BOX) == ["Look", "scribble"]


def test_an_allow_list_in_which_nothing_resolves_gives_no_tools() -> None:
    assert list(BOX.chosen(ToolChoice(("Nothing",)))) == []


@pytest.mark.parametrize("spoil", ["no docstring", "no type", "not async"])
def test_a_function_that_cannot_be_a_tool_is_refused(spoil: str) -> None:
    async def undocumented(ctx: ToolContext, path: str) -> str:
        return path

    def direct(ctx: ToolContext, path: str) -> str:
        """Do it."""
        return path

    async def untyped(ctx: ToolContext, path: str) -> str:
        """Do it."""
        return path

    del untyped.__annotations__["path"]
    functions: dict[str, Any] = {"no docstring": undocumented, "no type": untyped, "not async": direct}
    with pytest.raises(UserMistake):
        tool(effect="read")(functions[spoil])


@given(st.text(max_size=300), st.integers(40, 200))
def test_clip_keeps_short_text_and_bounds_long_text(text: str, most: int) -> None:
    clipped = clip(text, most)
    if len(text) <= most:
        assert clipped == text
    else:
        head, _, note = clipped.rpartition("\n")
        assert text.startswith(head) and len(head) <= most and "were left out]" in note


@tool(effect="read")
async def shelf_look(ctx: ToolContext, path: Annotated[str, Param("Where", also=("file", "where"))]) -> str:
    """Look at something that is on a shelf."""
    return path


def test_a_parameter_is_also_known_by_names_of_other_products() -> None:
    assert "file" not in str(shelf_look.schema)
    calls = [ToolCall("c", "x", each) for each in ({"file": "a"}, {"path": "b"})]
    spelled = [shelf_look.spelled(each).input for each in calls]
    assert spelled == [{"path": "a"}, {"path": "b"}]
    assert parsed(shelf_look, where="a") == {"path": "a"}
    for twice in ({"path": "a", "file": "b"}, {"where": "a", "file": "b"}):
        with pytest.raises(ToolError, match="unknown field `file`"):
            parsed(shelf_look, **twice)


def test_a_hidden_parameter_is_not_shown_to_a_model_and_is_taken_all_the_same() -> None:
    @tool(effect="read", name="Dig")
    async def dig(ctx: ToolContext, deep: Annotated[int, Param("How deep", hidden=True)] = 1) -> str:
        """Dig here."""
        return f"{deep}"

    assert dig.as_schema().parameters["properties"] == {}
    assert parsed(dig, deep=3) == {"deep": 3}


def test_a_tool_on_the_shelf_is_loaded_once_and_only_when_it_is_named() -> None:
    loaded: list[str] = []

    def load() -> Tool:
        loaded.append("shelf_look")
        return shelf_look

    box = Toolbox([look, LazyTool("shelf_look", load, ("from-the-shelf",))])
    assert ([*box], "FromTheShelf" in box, len(box)) == (["Look", "shelf_look"], True, 2)
    assert [[*part] for part in (box.usual(), box.without(["shelf_look"]), box.chosen(ToolChoice()))] == [
        ["Look"],
        ["Look"],
        ["Look"],
    ]
    assert loaded == []
    assert box["from_the_shelf"] is box.find("shelf_look") is shelf_look
    assert loaded == ["shelf_look"]


def test_further_tools_are_asked_for_once_and_take_no_name_that_is_there() -> None:
    asked: list[bool] = []

    def more(known: Container[str]) -> list[Tool]:
        asked.append("Look" in known)
        return [shelf_look, look]

    box = Toolbox([look], more)
    assert ("look" in box, "mcp__x__y" in box, asked) == (True, False, [])
    assert ("shelf_look" in box, "nobody" in box, [*box], asked) == (
        True,
        False,
        ["Look", "shelf_look"],
        [True],
    )


def test_tools_that_come_while_an_agent_is_at_work_are_added_and_none_is_replaced() -> None:
    come = [look]
    box = GrowingToolbox([scribble], lambda: come, lambda _: None)
    told = box.schemas()
    box.grow()
    assert box.schemas() is told
    come[:] = [replace(look, description="Something else."), shelf_look]
    assert "shelf_look" not in box
    box.grow()
    assert ([*box], box["Look"], box["SHELF_LOOK"]) == (
        ["scribble", "Look", "shelf_look"],
        look,
        shelf_look,
    )
    assert box.schemas() == (*told, shelf_look.as_schema())
