"""Pictures in a prompt: shown to a model that can see, else refused in a sentence, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.helpers import audio_block, image_block, text_block

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.messages import Image, UserMessage
from gencode.core.task import transcript_of
from gencode.files.images import LARGEST_PICTURE, MOST_PICTURES, MOST_TOGETHER
from gencode.interfaces.acp.prompts import MOST_IN_ALL, NO_AUDIO, NO_COMMAND, prompt_pictures, prompt_text
from gencode.interfaces.acp.stdio_transport import LONGEST_LINE
from gencode.interfaces.chat.chat_session import NO_PICTURES_NOW, Talk
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import says
from tests.interfaces.acp.driving import Wired
from tests.interfaces.cli.running import script
from tests.pictures import WHOLE, packed, png
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

SHOWN = [(kind, packed(raw)) for kind, raw in WHOLE.items()]
PNG = SHOWN[0][1]
HOSTILE: list[tuple[Any, str]] = [
    (image_block("?" * 8, "image/png"), "one that cannot be read"),
    (image_block("", "image/png"), "one that cannot be read"),
    (image_block(PNG + "=\n", "image/png"), "one that cannot be read"),
    (image_block(packed(png()[:8]), "image/png"), "one that is cut or broken"),
    (image_block(packed(png()[:30]), "image/png"), "one that is cut or broken"),
    (image_block(packed(png(60_000, 60_000)), "image/png"), "one of 60,000 x 60,000 pixels, more than"),
    (image_block(PNG, "image/jpeg"), "one that is no image/jpeg"),
    (image_block(PNG, "image/svg+xml"), "one of the kind 'image/svg"),
    (image_block(packed(png(filling=LARGEST_PICTURE)), "image/png"), "one of more than 3,932,160 bytes"),
]


async def test_pictures_of_every_kind_are_taken_and_named_in_the_text(tmp_path: Path) -> None:
    blocks = [
        text_block("See "),
        *(image_block(data, kind) for kind, data in SHOWN),
        audio_block("AA", "a/b"),
    ]
    assert prompt_pictures(blocks) == tuple(Image(kind, data) for kind, data in SHOWN)
    words = "See [picture 1][picture 2][picture 3][picture 4][audio (a/b) was left out]"
    assert prompt_text(blocks, tmp_path) == words


@pytest.mark.parametrize(("block", "why"), HOSTILE)
async def test_what_is_no_picture_is_refused_in_a_sentence(block: Any, why: str) -> None:
    with pytest.raises(UserMistake) as refused:
        prompt_pictures([image_block(PNG, "image/png"), block])
    assert f"icture 2 is {why}" in str(refused.value)
    assert str(MOST_PICTURES) in str(refused.value)


async def test_too_many_pictures_are_refused() -> None:
    with pytest.raises(UserMistake, match=str(MOST_PICTURES + 1)):
        prompt_pictures([image_block(PNG, "image/png")] * (MOST_PICTURES + 1))


async def test_pictures_that_do_not_fit_into_one_request_are_refused_and_others_fit_into_one_line() -> None:
    large = image_block(packed(png(filling=LARGEST_PICTURE - 100)), "image/png")
    with pytest.raises(UserMistake, match="together"):
        prompt_pictures([large] * 4)
    assert len(prompt_pictures([large] * 3)) == 3
    assert MOST_TOGETHER + MOST_IN_ALL < LONGEST_LINE


async def test_an_editor_sends_a_picture_and_is_told_where_none_is_taken(wire: Wired, tmp_path: Path) -> None:
    told = await wire.introduce()
    assert told.agent_capabilities and told.agent_capabilities.prompt_capabilities
    assert told.agent_capabilities.prompt_capabilities.image
    session = await wire.new(tmp_path)
    prompt: list[Any] = [text_block("What is this? "), image_block(PNG, "image/png")]
    with pytest.raises(RequestError, match="offline-search"):
        await wire.agent.prompt(session_id=session, prompt=prompt)
    model = script(tmp_path, main=[{"text": "A picture."}, {"text": "Still here."}])
    await wire.agent.set_config_option(config_id="model", session_id=session, value=model)
    with pytest.raises(RequestError, match="icture 1 is one that is no image/gif"):
        await wire.agent.prompt(session_id=session, prompt=[image_block(PNG, "image/gif")])
    assert (await wire.agent.prompt(session_id=session, prompt=prompt)).stop_reason == "end_turn"
    assert "A picture." in wire.editor.text(session)
    with pytest.raises(RequestError, match=NO_COMMAND):
        await wire.agent.prompt(
            session_id=session, prompt=[image_block(PNG, "image/png"), text_block("/cost")]
        )
    sound: list[Any] = [text_block("And now?"), audio_block("AA", "audio/wav")]
    await wire.agent.prompt(session_id=session, prompt=sound)
    assert "Still here." in wire.editor.text(session)
    assert f"> {NO_AUDIO}" in wire.editor.text(session)


async def test_a_picture_is_in_the_journal_and_in_every_later_request(tmp_path: Path) -> None:
    picture = Image("image/png", PNG)
    model = ScriptedProvider.of({"main": [says("first"), says("second"), says("slow", delay_ms=60_000)]})
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        talk = Talk(gen)
        for text in ("look", "again"):
            await talk.say(text, (picture,))
            await talk.rest()
        said = transcript_of(await gen.history.events(talk.session or ""))
        await talk.say("go on")
        await until(lambda: talk.running, "the turn is open")
        with pytest.raises(UserMistake) as refused:
            await talk.say("and this", (picture,))
        await talk.interrupt()
        await talk.close()
    shown = [each for each in said if isinstance(each, UserMessage)]
    assert shown == [UserMessage("look", images=(picture,)), UserMessage("again", images=(picture,))]
    assert str(refused.value) == NO_PICTURES_NOW
