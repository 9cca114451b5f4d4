"""What servers give back, in every kind."""

from typing import Any

import pytest

from gencode.agent.toolbox import ToolOutput
from gencode.core.messages import Image
from gencode.files.images import LARGEST_PICTURE
from gencode.mcp.tool_results import output_of
from tests.pictures import packed, png

PNG = packed(png())


def content(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"content": list(parts), **more}


def text(said: Any) -> dict[str, Any]:
    return {"type": "text", "text": said}


def image(kind: Any = "image/png", data: Any = PNG) -> dict[str, Any]:
    return {"type": "image", "mimeType": kind, "data": data}


RESULTS: list[tuple[dict[str, Any], ToolOutput]] = [
    (content(text("a"), text("b")), ToolOutput("a\nb")),
    (content(text("no"), isError=True), ToolOutput("no", error=True)),
    (content(), ToolOutput("[no output]")),
    ({}, ToolOutput("[no output]")),
    ({"content": "x"}, ToolOutput("[no output]")),
    (content(7, None, text(7)), ToolOutput("[no output]")),
    (content(image()), ToolOutput("[no text]", images=(Image("image/png", PNG),))),
    (content(image("image/svg+xml")), ToolOutput("[a picture of the kind 'image/svg+xml' was left out]")),
    (content(image(data="?")), ToolOutput("[a picture that cannot be read was left out]")),
    (content(image(data=packed(png()[:30]))), ToolOutput("[a picture that is cut or broken was left out]")),
    (
        content(image(data="A" * (2 * LARGEST_PICTURE + 1))),
        ToolOutput("[a picture of more than 3,932,160 bytes was left out]"),
    ),
    (content({"type": "audio", "mimeType": "audio/wav"}), ToolOutput("[audio (audio/wav) was left out]")),
    (content({"type": "hologram"}), ToolOutput("[content of the type 'hologram' was left out]")),
    (
        content({"type": "resource_link", "uri": "file:///a", "name": "A"}),
        ToolOutput("[resource file:///a: A]"),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "text": "T"}}),
        ToolOutput("[resource x:1]\nT"),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "mimeType": "IMAGE/PNG", "blob": PNG}}),
        ToolOutput("[resource x:1]", images=(Image("image/png", PNG),)),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "blob": "AAAA"}}),
        ToolOutput("[resource x:1] is not text and was left out"),
    ),
    (content(structuredContent={"a": [1]}), ToolOutput('{\n  "a": [\n    1\n  ]\n}')),
    (content(text('{"a": 1}'), structuredContent={"a": 1}), ToolOutput('{"a": 1}')),
    (content(text("plain"), structuredContent={"content": "plain"}), ToolOutput("plain")),
    (content(text("5"), structuredContent={"result": 5}), ToolOutput("5")),
    (content(text("plain"), structuredContent={"a": 1}), ToolOutput('plain\n{\n  "a": 1\n}')),
]


@pytest.mark.parametrize(("result", "output"), RESULTS)
def test_a_result_becomes_an_output(result: dict[str, Any], output: ToolOutput) -> None:
    assert output_of(result) == output


def test_pictures_and_parts_have_a_limit() -> None:
    output = output_of(content(*[image()] * 21, *[text("x")] * 1_000))
    assert len(output.images) == 20
    assert output.text.splitlines()[0] == "[another picture was left out]"
    assert output.text.splitlines()[-1] == "[21 more parts were left out]"


def test_a_server_that_wants_more_from_the_person_is_told_off() -> None:
    output = output_of({"resultType": "input_required", "inputRequests": {}})
    assert output.error
    assert "not supported" in output.text
