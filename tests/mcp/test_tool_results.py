"""What servers give back, in every kind."""

from functools import partial
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


written = partial(ToolOutput, foreign=True)

RESULTS: list[tuple[dict[str, Any], ToolOutput]] = [
    (content(text("a"), text("b")), written("a\nb")),
    (content(text("no"), isError=True), written("no", error=True)),
    (content(), written("[no output]")),
    ({}, written("[no output]")),
    ({"content": "x"}, written("[no output]")),
    (content(7, None, text(7)), written("[no output]")),
    (content(image()), written("[no text]", images=(Image("image/png", PNG),))),
    (
        content(image("image/svg+xml")),
        written("[a picture of the kind 'image/svg+xml' was left out]"),
    ),
    (content(image(data="?")), written("[a picture that cannot be read was left out]")),
    (
        content(image(data=packed(png()[:30]))),
        written("[a picture that is cut or broken was left out]"),
    ),
    (
        content(image(data="A" * (2 * LARGEST_PICTURE + 1))),
        written("[a picture of more than 3,932,160 bytes was left out]"),
    ),
    (
        content({"type": "audio", "mimeType": "audio/wav"}),
        written("[audio (audio/wav) was left out]"),
    ),
    (
        content({"type": "hologram"}),
        written("[content of the type 'hologram' was left out]"),
    ),
    (
        content({"type": "resource_link", "uri": "file:///a", "name": "A"}),
        written("[resource file:///a: A]"),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "text": "T"}}),
        written("[resource x:1]\nT"),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "mimeType": "IMAGE/PNG", "blob": PNG}}),
        written("[resource x:1]", images=(Image("image/png", PNG),)),
    ),
    (
        content({"type": "resource", "resource": {"uri": "x:1", "blob": "AAAA"}}),
        written("[resource x:1] is not text and was left out"),
    ),
    (content(structuredContent={"a": [1]}), written('{\n  "a": [\n    1\n  ]\n}')),
    (content(text('{"a": 1}'), structuredContent={"a": 1}), written('{"a": 1}')),
    (content(text("plain"), structuredContent={"content": "plain"}), written("plain")),
    (content(text("5"), structuredContent={"result": 5}), written("5")),
    (content(text("plain"), structuredContent={"a": 1}), written('plain\n{\n  "a": 1\n}')),
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
