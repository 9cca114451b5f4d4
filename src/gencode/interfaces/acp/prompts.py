"""What a person sends from an editor, as the text that an agent hears (surfaces, ACP)."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from gencode.core.errors import UserMistake
from gencode.core.messages import Image
from gencode.core.visible import visible_line
from gencode.files.images import LARGEST_PICTURE, MOST_PICTURES, MOST_TOGETHER, WIDEST, picture
from gencode.interfaces.acp.call_display import fenced
from gencode.interfaces.chat.slash_commands import is_command

MOST_LINKS = 200
MOST_OF_ONE = 100_000
MOST_IN_ALL = 400_000
NAME_ROOM = 1_000
TAKEN = (
    f"At most {MOST_PICTURES} are taken, PNG, JPEG, GIF or WebP, each of at most {LARGEST_PICTURE:,} bytes "
    f"and {WIDEST:,} x {WIDEST:,} pixels, together of at most {MOST_TOGETHER // 4 * 3:,} bytes."
)
NO_COMMAND = "A command takes no pictures, so nothing was done. Send it alone."
NO_SOUNDS = "Sounds are not taken; what you sent went on without."
Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def prompt_text(blocks: Sequence[Block], cwd: Path) -> str:
    """The words, then the files that were pointed to or came along; what comes along is bounded."""
    words: list[str] = []
    links: list[str] = []
    brought: list[str] = []
    room = MOST_IN_ALL
    shown = 0
    for block in blocks:
        match block:
            case TextContentBlock():
                words.append(block.text)
            case ResourceContentBlock():
                place = place_of(block.uri, cwd)
                words.append(f"@{place}")
                links.append(place)
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                text = _cut(resource.text, min(MOST_OF_ONE, room))
                room -= min(len(resource.text), MOST_OF_ONE, room)
                place = place_of(resource.uri, cwd)
                words.append(f"@{place}")
                brought.append(f"{place}, as the editor shows it:\n{fenced(text)}")
            case EmbeddedResourceContentBlock():
                words.append(f"[{place_of(block.resource.uri, cwd)} is no text and cannot be shown here]")
            case ImageContentBlock():
                shown += 1
                words.append(f"[picture {shown}]")
            case AudioContentBlock():
                words.append(f"[something that is no text ({visible_line(block.mime_type, 80)}): not shown]")
    return "\n\n".join(part for part in ("".join(words), _pointed_to(links), *brought) if part)


def prompt_pictures(blocks: Sequence[Block]) -> tuple[Image, ...]:
    """The pictures, in order; UserMistake says what is wrong with the first that cannot be shown."""
    blocks = [block for block in blocks if isinstance(block, ImageContentBlock)]
    if len(blocks) > MOST_PICTURES:
        raise UserMistake(f"{len(blocks)} pictures are too many at once, so nothing was sent. {TAKEN}")
    found = [picture(block.mime_type, block.data) for block in blocks]
    for number, each in enumerate(found, start=1):
        if isinstance(each, str):
            raise UserMistake(f"Picture {number} is one {each}, so nothing was sent. {TAKEN}")
    pictures = tuple(each for each in found if isinstance(each, Image))
    if sum(len(each.base64) for each in pictures) > MOST_TOGETHER:
        raise UserMistake(f"The pictures together are too large, so nothing was sent. {TAKEN}")
    return pictures


def command_in(blocks: Sequence[Block], text: str) -> str:
    """The command that a prompt is; empty where it is none. UserMistake for one with pictures."""
    if not any(isinstance(block, ImageContentBlock) for block in blocks):
        return text if is_command(text) else ""
    typed = "".join(block.text for block in blocks if isinstance(block, TextContentBlock))
    if is_command(typed.strip()):
        raise UserMistake(NO_COMMAND)
    return ""


def has_sounds(blocks: Sequence[Block]) -> bool:
    """Whether something is left out that only can be heard."""
    return any(isinstance(block, AudioContentBlock) for block in blocks)


def place_of(uri: str, cwd: Path) -> str:
    """What a URI points to: a path from the working directory where it is inside, and the lines."""
    parts = urlsplit(uri[:NAME_ROOM])
    if parts.scheme not in ("", "file"):
        return visible_line(uri, NAME_ROOM)
    path = Path(unquote(parts.path))
    inside = path.is_absolute() and path.is_relative_to(cwd)
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return visible_line(f"{path.relative_to(cwd) if inside else path}{lines}", NAME_ROOM)


def _pointed_to(links: Sequence[str]) -> str:
    if not links:
        return ""
    listed = list(dict.fromkeys(links))
    more = f"\n… and {len(listed) - MOST_LINKS} more" if len(listed) > MOST_LINKS else ""
    return "The user points to:\n" + "\n".join(f"- {each}" for each in listed[:MOST_LINKS]) + more


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[… {left:,} more characters are left out; Read the file]"
