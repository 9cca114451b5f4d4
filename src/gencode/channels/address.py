"""The address of a person outside the conversation: a channel, and a chat in it."""

import re

from msgspec import Struct

from gencode.core.errors import UserMistake

LONGEST_CHAT = 200
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")


class Address(Struct, frozen=True):
    """A chat in a channel, spelled `channel:chat`."""

    channel: str
    chat: str

    def __str__(self) -> str:
        return f"{self.channel}:{self.chat}"


def parse_address(text: str) -> Address:
    """Parse `channel:chat`; UserMistake says what is wrong with anything else."""
    channel, colon, chat = text.partition(":")
    if not colon:
        raise UserMistake(f"{text[:80]!r} is no address; write it as channel:chat, for example file:notes.")
    return address(channel, chat)


def address(channel: str, chat: str) -> Address:
    """A checked address: a short name in lower case, and one line of text."""
    name, room = channel.strip().casefold(), chat.strip()
    if not _CHANNEL.match(name):
        raise UserMistake(
            f"{channel[:80]!r} is no name of a channel; it has up to 40 small letters, digits, - and _."
        )
    if not room or len(room) > LONGEST_CHAT or not room.isprintable():
        raise UserMistake(
            f"{chat[:80]!r} is no chat; it is one line of 1 to {LONGEST_CHAT} characters that can be seen."
        )
    return Address(name, room)
