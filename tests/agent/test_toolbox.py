"""Tools from functions, and boxes of them."""

from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.tools.desk import Desk

from gencode.agent.server_toolbox import ServerToolbox
from gencode.agent.toolbox import LazyTool, Param, Tool, Toolbox, ToolContext, tool
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.spec import ToolChoice
from gencode.core.text import clip
from gencode.tools.catalog import TOOLS
from gencode.tools.edit import EDIT
from gencode.tools.read import READ
from gencode.tools.todo import TODO_WRITE


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
    box = ServerToolbox([scribble], lambda: come, lambda _: None)
    told = box.schemas()
    assert box.grow() == ()
    assert box.schemas() is told
    come[:] = [replace(look, description="Something else."), shelf_look]
    assert "shelf_look" not in box
    assert box.grow() == ("shelf_look",)
    assert (box["Look"], box["SHELF_LOOK"]) == (look, shelf_look)
    schemas = box.schemas()
    assert schemas[:2] == told
    assert [each.name for each in schemas[2:]] == ["ToolSearch", "ToolUse"]
    assert "- shelf_look: " in schemas[2].description
    come.append(replace(shelf_look, name="mcp__a__b", server="a"))
    assert (box.grow(), box.schemas()) == (("mcp__a__b",), schemas)


def server_tool(number: int) -> Tool:
    return replace(
        shelf_look,
        name=f"mcp__big__tool_{number}",
        description=f"[MCP server big] Does thing {number}. {'And more of it. ' * 40}",
        server="big",
        source="mcp",
    )


def test_large_server_tools_are_deferred_and_listed_by_their_first_sentence() -> None:
    few = ServerToolbox([look], lambda: [server_tool(1), server_tool(2)], lambda _: None)
    assert [each.name for each in few.schemas()] == ["Look", "mcp__big__tool_1", "mcp__big__tool_2"]
    many = [server_tool(number) for number in range(60)]
    box = ServerToolbox([look], lambda: many, lambda _: None)
    names, listed = [each.name for each in box.schemas()], box.schemas()[1].description
    assert names == ["Look", "ToolSearch", "ToolUse"]
    assert "- mcp__big__tool_59: Does thing 59." in listed and "And more" not in listed
    assert sum(len(str(each)) for each in box.schemas()) < 8_000
    assert all(each.name in box for each in many)


async def test_deferred_tools_are_found_by_words_and_by_name(tmp_path: Path) -> None:
    many = [server_tool(number) for number in range(60)]
    box = ServerToolbox([look], lambda: many, lambda _: None)
    box.schemas()
    desk = Desk(tmp_path)
    found = await desk.use(box["ToolSearch"], query="mcp__big__tool_7")
    assert found.startswith("mcp__big__tool_7: [MCP server big] Does thing 7.")
    assert '"properties":' in found and found.count("Arguments: ") == 1
    assert (await desk.use(box["ToolSearch"], query="thing 33")).startswith("mcp__big__tool_33: ")
    with pytest.raises(ToolError, match="No MCP tool matches"):
        await desk.use(box["ToolSearch"], query="zebra")


def test_a_call_through_tooluse_is_a_call_of_the_tool_itself() -> None:
    many = [server_tool(number) for number in range(60)]
    box = ServerToolbox([look], lambda: many, lambda _: None)
    box.schemas()

    def use(**given: Any) -> ToolCall:
        return box.called(ToolCall("c", "ToolUse", given))

    meant = ToolCall("c", "mcp__big__tool_7", {"a": 1})
    assert use(name="mcp__big__tool_7", arguments={"a": 1}) == meant
    assert use(name="mcp__big__tool_7", arguments='{"a": 1}') == meant
    wrongs: tuple[dict[str, Any], ...] = (
        {"name": "nothing", "arguments": {}},
        {"name": 3},
        {"name": "mcp__big__tool_7", "arguments": "{"},
    )
    assert [use(**wrong).name for wrong in wrongs] == ["ToolUse"] * 3


def test_the_values_of_a_nested_enum_are_named_when_another_is_given() -> None:
    with pytest.raises(ToolError) as caught:
        TODO_WRITE.parse(ToolCall("c", "TodoWrite", {"todos": [{"content": "x", "status": "doing"}]}))
    assert "Each of todos takes content (string, required), " in str(caught.value)
    assert "status ('completed' | 'in_progress' | 'pending', required)" in str(caught.value)


def test_a_tool_with_a_better_one_beside_it_is_taken_and_not_offered() -> None:
    def offered(*names: str) -> list[str]:
        return [each.name for each in Toolbox(TOOLS).only(names).schemas()]

    assert offered("Read", "LS", "TaskStop", "KillShell") == ["Read", "TaskStop"]
    assert offered("LS", "KillShell") == ["LS", "KillShell"]
    assert "LS" in Toolbox(TOOLS) and "list_dir" in Toolbox(TOOLS)


def test_bounds_are_checked_and_not_sent() -> None:
    shown = str([each.as_schema().parameters for each in TOOLS])
    assert [word in shown for word in ("minimum", "maxItems", "additionalProperties", "minLength")] == [
        False
    ] * 4
    with pytest.raises(ToolError, match="limit"):
        READ.parse(ToolCall("c", "Read", {"file_path": "a", "limit": 0}))
    with pytest.raises(ToolError, match="unknown field"):
        READ.parse(ToolCall("c", "Read", {"file_path": "a", "nothing": 0}))


def test_names_of_parameters_from_other_products_are_taken() -> None:
    call = EDIT.spelled(ToolCall("c", "Edit", {"path": "a", "old_str": "x", "new_str": "y"}))
    assert call.input == {"file_path": "a", "old_string": "x", "new_string": "y"}


def test_a_hidden_value_is_accepted_and_not_shown_to_models() -> None:
    @tool(effect="read", name="Paint")
    async def paint(
        ctx: ToolContext,
        how: Annotated[Literal["", "thin", "thick"], Param("How", hidden=("thick",))] = "",
        why: Annotated[str, Param("Why", hidden=True)] = "",
    ) -> str:
        """Paint."""
        return how

    assert paint.as_schema().parameters["properties"] == {
        "how": {"type": "string", "enum": ["thin"], "description": "How"}
    }
    taken = paint.parse(ToolCall("c", "Paint", {"how": "thick", "why": "so"}))
    assert (getattr(taken, "how"), getattr(taken, "why")) == ("thick", "so")  # noqa: B009
