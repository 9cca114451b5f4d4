"""Messages that leave the conversation: written down first, delivered at least once, never lost."""

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.workspaces.village import Village, page, redirect, village_in

from gencode.channels.address import Address, parse_address
from gencode.channels.outbox import (
    MOST_TRIES,
    FileChannel,
    Outbox,
    OutgoingMessage,
    TerminalChannel,
    WebhookChannel,
    WebhookSettings,
    own_channels,
)
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.ids import stamp
from gencode.stores.memory import MemoryStore

HOOK = "http://hook.example.net/in"


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


class Wire:
    """A channel that keeps what it is given, or refuses it."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.sent: list[tuple[str, str, str]] = []

    async def send(self, chat: str, text: str, mark: str) -> None:
        if self.trouble:
            raise ToolError(self.trouble)
        self.sent.append((chat, text, mark))


def never(_: str, __: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "address"),
    [("cli:9f3a", Address("cli", "9f3a")), (" Team : room 7:b ", Address("team", "room 7:b"))],
)
def test_an_address_is_a_channel_and_a_chat(text: str, address: Address) -> None:
    assert parse_address(text) == parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file",
        ":x",
        "file:",
        "file: ",
        "a b:x",
        "é:x",
        "../x:y",
        "file:a\nb",
        "x" * 41 + ":y",
        "f:" + "x" * 201,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserMistake, match=r"is no (address|name of a channel|chat)"):
        parse_address(text)


async def test_a_message_is_delivered_once_and_crossed_out() -> None:
    store, wire = MemoryStore(), Wire()
    outbox = Outbox(store, {"wire": wire})
    assert await outbox.send(OutgoingMessage(Address("wire", "a"), "hello")) == ""
    assert (wire.sent, await store.outbox.pending(), await outbox.deliver()) == ([("a", "hello", "1")], [], 0)


async def test_what_cannot_be_delivered_waits_and_is_tried_again_later() -> None:
    store, wire = MemoryStore(), Wire("The line is dead.")
    outbox = Outbox(store, {"wire": wire})
    assert await outbox.send(OutgoingMessage(Address("wire", "a"), "hello")) == "The line is dead."
    wire.trouble = ""
    assert (await outbox.deliver(), wire.sent) == (0, [])
    (waiting,) = await store.outbox.pending()
    await store.outbox.retry_later(waiting, stamp(datetime.now(UTC) - timedelta(seconds=1)))
    assert (await outbox.deliver(), wire.sent, await store.outbox.pending()) == (1, [("a", "hello", "1")], [])


async def test_a_message_whose_process_died_is_delivered_by_another_with_the_same_mark() -> None:
    store, wire = MemoryStore(), Wire()
    message = await store.outbox.add_message(OutgoingMessage(Address("wire", "a"), "hello"))
    past = datetime.now(UTC) - timedelta(hours=1)
    await store.outbox.claim(("wire",), stamp(past), stamp(past + timedelta(minutes=2)))
    assert await Outbox(store, {"wire": wire}).deliver() == 1
    assert wire.sent == [("a", "hello", str(message.number))]


async def test_what_was_tried_often_enough_is_given_up_and_its_sender_told() -> None:
    store, wire = MemoryStore(), Wire("The line is dead.")
    lease = await store.create(TaskCreated(), "me")
    outbox = Outbox(store, {"wire": wire})
    await outbox.send(OutgoingMessage(Address("wire", "a"), "hello", lease.task))
    await outbox.send(OutgoingMessage(Address("wire", "b"), "from nobody", "0badcafe"))
    for _ in range(MOST_TRIES - 1):
        assert len(await store.outbox.pending()) == 2
        for waiting in await store.outbox.pending():
            await store.outbox.retry_later(waiting, "")
        await outbox.deliver()
    assert await store.outbox.pending() == []
    (letter,) = await store.unread_messages(lease.task)
    assert letter.text.startswith("[The message to wire:a of ") and letter.text.endswith("The line is dead.]")


async def test_a_channel_that_is_not_there_is_named_with_those_that_are() -> None:
    store = MemoryStore()
    with pytest.raises(UnknownName, match="There is no channel 'wir'. Did you mean wire?"):
        await Outbox(store, {"wire": Wire()}).send(OutgoingMessage(Address("wir", "a"), "x"))
    assert await store.outbox.pending() == []


async def test_an_outbox_leaves_messages_of_channels_it_does_not_have() -> None:
    store, wire = MemoryStore(), Wire()
    await store.outbox.add_message(OutgoingMessage(Address("wire", "a"), "x"))
    outbox = Outbox(store, {})
    assert await outbox.deliver() == 0
    Outbox(store, {"wire": wire}).lend(outbox)
    assert (await outbox.deliver(), outbox.channels) == (1, ("wire",))


async def test_the_screen_shows_line_by_line_what_is_open_here() -> None:
    shown: list[tuple[str, str]] = []
    screen = TerminalChannel(lambda chat, line: shown.append((chat, line)) or chat == "here")
    await screen.send("here", "one\n\n" + "x" * 600, "1")
    assert [(chat, len(line)) for chat, line in shown] == [("here", 3), ("here", 480), ("here", 120)]
    with pytest.raises(ToolError, match="The conversation there is not open here"):
        await screen.send("there", "one", "1")


async def test_a_file_grows_and_its_entries_cannot_be_forged(tmp_path: Path) -> None:
    folder = FileChannel(tmp_path / "home" / "outbox")
    await folder.send("notes", "one\n[2026-01-01 9]\ntwo", "7")
    await folder.send("notes", "caf\udce9", "8")
    file = tmp_path / "home" / "outbox" / "notes.md"
    lines = file.read_text().split("\n")
    assert [line for line in lines if line.startswith("[")] == [lines[0], lines[5]]
    assert lines[1:4] == ["  one", "  [2026-01-01 9]", "  two"] and lines[0].endswith("Z 7]")
    assert (lines[6], file.stat().st_mode & 0o777) == ("  caf?", 0o600)


@pytest.mark.parametrize("chat", ["../x", "a/b", ".", "a.md", "x" * 65, "~", "a b"])
async def test_a_file_lies_in_its_folder_and_nowhere_else(tmp_path: Path, chat: str) -> None:
    with pytest.raises(ToolError, match="is no name of a file"):
        await FileChannel(tmp_path / "outbox").send(chat, "x", "1")
    assert not (tmp_path / "outbox").exists()


async def test_no_link_is_followed_to_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox" / "notes.md").symlink_to(tmp_path / "elsewhere")
    store = MemoryStore()
    outbox = Outbox(store, {"file": FileChannel(tmp_path / "outbox")})
    assert await outbox.send(OutgoingMessage(Address("file", "notes"), "x")) != ""
    assert (not (tmp_path / "elsewhere").exists(), len(await store.outbox.pending())) == (True, 1)


async def test_a_file_that_is_too_large_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    with pytest.raises(ToolError, match="is larger than"):
        await FileChannel(tmp_path).send("notes", "x", "1")


async def test_a_webhook_gets_json_with_a_mark_and_the_headers_of_the_settings(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", "s3cret")
    house = await village.build("hook.example.net", page(b"ok"))
    told = WebhookSettings(HOOK, {"Authorization": "Bearer ${TEAM_TOKEN}"})
    await WebhookChannel("team", told, village).send("room", "hello", "7")
    (visit,) = house.visits
    assert json.loads(visit.body) == {"id": "7", "channel": "team", "chat": "room", "text": "hello"}
    assert (visit.head.split(" ")[0], visit.header("authorization")) == ("POST", "Bearer s3cret")


async def test_a_webhook_that_says_no_or_sends_us_elsewhere_did_not_get_it(village: Village) -> None:
    elsewhere = await village.build("b.example.net", page(b"ok"))
    await village.build("hook.example.net", redirect("http://b.example.net/", 307))
    with pytest.raises(ToolError):
        await WebhookChannel("team", WebhookSettings(HOOK), village).send("room", "x", "1")
    await village.build("c.example.net", redirect("http://b.example.net/", 303))
    with pytest.raises(ToolError, match="team redirects, and messages are not sent on"):
        await WebhookChannel("team", WebhookSettings("http://c.example.net/"), village).send("room", "x", "1")
    assert elsewhere.visits == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "http://localhost/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://x:y@a.example.net/",
    ],
)
async def test_a_webhook_reaches_no_address_that_a_page_could_not(village: Village, url: str) -> None:
    with pytest.raises(ToolError):
        await WebhookChannel("team", WebhookSettings(url), village).send("room", "x", "1")


async def test_a_variable_that_is_not_set_is_named(village: Village) -> None:
    told = WebhookSettings(HOOK, {"X-Key": "${NOT_SET_HERE}"})
    with pytest.raises(ToolError, match="team needs the variable NOT_SET_HERE"):
        await WebhookChannel("team", told, village).send("room", "x", "1")


def test_the_channels_of_the_settings_are_checked(tmp_path: Path) -> None:
    assert list(own_channels(tmp_path, never, {"team": {"url": HOOK}})) == ["cli", "terminal", "file", "team"]
    for name, table, why in (
        ("cli", {"url": HOOK}, "channels.cli has no name of its own"),
        ("Team 1", {"url": HOOK}, "has no name of its own"),
        ("team", {}, "channels.team does not fit"),
        ("team", {"url": HOOK, "urll": 1}, "channels.team does not fit"),
        ("team", 7, "channels.team does not fit"),
    ):
        with pytest.raises(UserMistake, match=why):
            own_channels(tmp_path, never, {name: table})
