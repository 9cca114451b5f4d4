"""Read: ranges, encodings, files that are no text, and paths that lead astray."""

import asyncio
import base64
import hashlib
import os
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.core.messages import FileSeen, Image, Trace
from gencode.core.text import CLIP
from gencode.files.images import LARGEST_PICTURE
from gencode.tools.ls import LS
from gencode.tools.read import READ
from tests.pictures import png
from tests.tools.desk import Desk


def trace(path: str, content: bytes) -> Trace:
    return Trace(read=(path,), seen=(FileSeen(path, hashlib.sha256(content).hexdigest()),))


async def test_every_line_comes_with_its_number(desk: Desk) -> None:
    desk.put("src/a.txt", "one\ntwo\n\nfour")
    assert await desk.output(READ, file_path="src/a.txt") == ToolOutput(
        "1\tone\n2\ttwo\n3\t\n4\tfour", trace("src/a.txt", b"one\ntwo\n\nfour")
    )


async def test_a_range_is_read_and_the_rest_is_announced(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    assert await desk.use(READ, file_path="a.txt", offset=10, limit=2) == (
        "10\tline 10\n11\tline 11\n[… 89 more lines; go on with offset=12]"
    )
    assert await desk.use(READ, file_path="a.txt", offset=99) == "99\tline 99\n100\tline 100"


async def test_following_the_offsets_reads_the_whole_file(desk: Desk) -> None:
    lines = [f"{n} " + "x" * (n % 90) for n in range(1, 3001)]
    desk.put("a.txt", "\n".join(lines))
    read: list[str] = []
    offset = 1
    while offset:
        text = await desk.use(READ, file_path="a.txt", offset=offset)
        assert len(text) <= CLIP
        *page, last = text.split("\n")
        offset = int(last.rpartition("=")[2].rstrip("]")) if last.startswith("[…") else 0
        read += page if offset else [*page, last]
    assert [line.partition("\t")[2] for line in read] == lines


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9\n", "1\tcafé"),
        ("naïve\r\nfin\r\n".encode("utf-16"), "1\tnaïve\n2\tfin\n[the file is UTF-16]"),
        (
            b"\xfe\xff" + "größe".encode("utf-16-be"),
            "1\tgröße\n[the file is UTF-16]",
        ),
        (
            b"ascii\ncaf\xe9\n",
            "1\tascii\n2\tcafé\n[the file is not UTF-8; the bytes that are not were read as Latin-1]",
        ),
        (b"a\rb\x0cc\xe2\x80\xa8d\n", "1\ta\rb\x0cc\u2028d"),
    ],
)
async def test_encodings_are_understood(desk: Desk, content: bytes, shown: str) -> None:
    desk.put("a.txt", content)
    assert await desk.use(READ, file_path="a.txt") == shown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    offset=st.integers(1, 6),
    limit=st.integers(1, 6),
)
def test_lines_are_what_stands_between_line_ends(desk: Desk, text: str, offset: int, limit: int) -> None:
    desk.put("a.txt", text)
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").removesuffix("\n").split("\n")]
    shown = [f"{n}\t{line}" for n, line in enumerate(lines, 1)][offset - 1 :][:limit]
    got = asyncio.run(desk.use(READ, file_path="a.txt", offset=offset, limit=limit))
    if text == "\ufeff":
        assert got == "a.txt is empty."
    elif shown:
        assert got.split("\n")[: len(shown)] == shown
    else:
        assert got.endswith("is past the end.")


async def test_a_huge_line_is_cut_with_a_note(desk: Desk) -> None:
    desk.put("a.txt", "x" * 5_000_000 + "\nshort\n")
    first, second, note = (await desk.use(READ, file_path="a.txt")).split("\n")
    assert first == "1\t" + "x" * 2000 + " [… the line goes on, 5.0 MB in all]"
    assert (second, note) == ("2\tshort", "[1 long line cut at 2,000 characters]")


async def test_a_cut_never_splits_a_character(desk: Desk) -> None:
    desk.put("a.txt", "x" + "€" * 5_000)
    assert (await desk.use(READ, file_path="a.txt")).startswith("1\tx" + "€" * 1999 + " [… the line")


async def test_a_file_of_gigabytes_is_read_without_being_counted(desk: Desk) -> None:
    desk.put("big.log", "first\nsecond\n")
    os.truncate(desk.root / "big.log", 0)
    with (desk.root / "big.log").open("r+b") as file:
        file.write(b"first\nsecond\n" + b"filler line\n" * 6_000)
        file.truncate(3 * 1024**3)
    assert await desk.use(READ, file_path="big.log", limit=1) == (
        "1\tfirst\n[… more lines; go on with offset=2]"
    )


async def test_an_empty_file_and_an_offset_past_the_end_are_said_in_words(desk: Desk) -> None:
    desk.write(empty_txt="", a_txt="one\n")
    assert await desk.use(READ, file_path="empty.txt") == "empty.txt is empty."
    assert await desk.use(READ, file_path="a.txt", offset=9) == (
        "a.txt has only 1 line; offset=9 is past the end."
    )
    assert await desk.use(READ, file_path="a.txt", offset=0) == "1\tone"


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x06\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 20, 10) + b"\0\0\0"
BMP = b"BM" + b"\0" * 12 + struct.pack("<IiiHH", 40, 33, -44, 1, 24)
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0" + b"\0" * 9 + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 99, 77)
WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x7f\x02\0" + b"\xdf\x01\0"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BMP, "BMP image, 33 × 44 pixels, 30 bytes."),
        (b"%PDF-1.7\n", "PDF document, 9 bytes."),
        (b"\x7fELF\x02\x01\x01\0", "ELF program or library, 8 bytes."),
        (b"what\0ever", "binary file, 9 bytes."),
        (b"\x01\x02\xff\xfe\x03\x04\x05\x06\x07" * 9, "binary file, 81 bytes."),
    ],
)
async def test_what_is_no_text_is_described(desk: Desk, content: bytes, said: str) -> None:
    desk.put("thing", content)
    assert await desk.use(READ, file_path="thing") == f"thing is not text and is not shown: {said}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PNG, "PNG image, 640 × 480 pixels, 29 bytes."),
        (GIF, "GIF image, 20 × 10 pixels, 13 bytes."),
        (JPEG, "JPEG image, 77 × 99 pixels, 29 bytes."),
        (WEBP, "WebP image, 640 × 480 pixels, 30 bytes."),
        (PNG[:14], "PNG image, 14 bytes."),
        (JPEG[:12], "JPEG image, 12 bytes."),
    ],
)
async def test_an_image_that_is_not_whole_is_described(desk: Desk, content: bytes, said: str) -> None:
    desk.put("thing", content)
    text = f"thing is an image that is cut or broken, so it is not shown: {said}"
    assert await desk.output(READ, file_path="thing") == ToolOutput(text, trace("thing", content))


async def test_an_image_is_shown(desk: Desk) -> None:
    desk.put("a.png", png(3, 4))
    desk.put("large.png", png(3, 4, LARGEST_PICTURE))
    shown = await desk.output(READ, file_path="a.png")
    assert (shown.text, shown.images) == (
        f"a.png: PNG image, 3 × 4 pixels, {len(png(3, 4))} bytes.",
        (Image("image/png", base64.b64encode(png(3, 4)).decode()),),
    )
    large = await desk.output(READ, file_path="large.png")
    assert (large.images, large.text.partition(",")[0]) == ((), "large.png is an image of more than 3")


async def test_a_folder_is_listed(desk: Desk) -> None:
    desk.put(".gitignore", "*.log\n")
    for name in ("src/a.py", "b.txt", "c.log"):
        desk.put(name, "x\n")
    listed = "src/\n.gitignore (6 bytes)\nb.txt (2 bytes)\n[left out by ignore files: c.log]"
    assert await desk.use(READ, file_path=".") == await desk.use(LS) == listed
    assert await desk.use(READ, file_path=".", limit=1) == (
        "src/\n[… 2 more; go on with offset=2]\n[left out by ignore files: c.log]"
    )
    assert (await desk.use(READ, file_path=".", offset=3)).startswith("b.txt (2 bytes)\n[left")
    assert (await desk.use(READ, file_path=".", offset=9)).startswith("There is nothing at offset=9;")


async def test_a_text_that_begins_like_an_image_is_a_text(desk: Desk) -> None:
    desk.write(a_txt="BMW makes cars\n", b_svg="<svg/>")
    assert await desk.use(READ, file_path="a.txt") == "1\tBMW makes cars"
    assert await desk.use(READ, file_path="b.svg") == "1\t<svg/>"


@given(content=st.binary(min_size=1, max_size=80), start=st.sampled_from([PNG, GIF, BMP, JPEG, WEBP, b""]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_described(desk: Desk, content: bytes, start: bytes) -> None:
    desk.put("thing", start[: len(content)] + content)
    text = asyncio.run(desk.use(READ, file_path="thing"))
    assert 0 < len(text) <= CLIP
    assert text.encode()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("confg.py", "confg.py does not exist; did you mean config.py?"),
        ("CONFIG.PY", "CONFIG.PY does not exist; did you mean config.py?"),
        ("zzzzzz", "zzzzzz does not exist; find it with Glob first."),
        ("nowhere/a.py", "nowhere/a.py does not exist, nor does its folder; find it with Glob first."),
        ("config.py/x", "config.py/x does not exist: config.py is a file, not a folder."),
        ("", "'' cannot be opened: the path is empty."),
        ("a\0b", "'a\\x00b' cannot be opened: the path has the deceptive character U+0000."),
        ("~root/x", "~root/x cannot be opened: it is in another user's home directory."),
        ("x" * 300, f"'{'x' * 200}…' cannot be read: File name too long."),
    ],
)
async def test_a_path_that_is_wrong_is_answered_with_a_way_out(desk: Desk, path: str, said: str) -> None:
    desk.write(config_py="", src__main_py="")
    with pytest.raises(ToolError) as caught:
        await desk.use(READ, file_path=path)
    assert str(caught.value) == said


async def test_a_pipe_and_a_socket_are_refused_without_waiting(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk.root)
        listener.bind("sock")
        for name in ("pipe", "sock"):
            with pytest.raises(ToolError, match=f"^{name} is a device, a pipe or a socket, not a file"):
                await desk.use(READ, file_path=name)


async def test_links_to_files_are_followed_and_circles_are_not(desk: Desk) -> None:
    desk.put("real/a.txt", "inside")
    (desk.root / "to_file").symlink_to("real/a.txt")
    (desk.root / "to_folder").symlink_to("real")
    (desk.root / "circle").symlink_to("circle")
    assert (await desk.output(READ, file_path="to_file")).trace == trace("real/a.txt", b"inside")
    assert await desk.use(READ, file_path="to_folder/a.txt") == "1\tinside"
    with pytest.raises(ToolError, match="its links form a loop"):
        await desk.use(READ, file_path="circle")


async def test_dots_behind_a_link_that_mean_two_files_are_refused(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "far/a.txt").write_text("another file")
    desk.put("a.txt", "this file")
    (desk.root / "link").symlink_to(tmp_path / "far/away")
    with pytest.raises(ToolError, match=r"write the path without `\.\.`"):
        await desk.use(READ, file_path="link/../a.txt")


async def test_home_and_absolute_paths_are_understood(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("outside")
    desk.put("a.txt", "at home")
    assert await desk.use(READ, file_path="~/a.txt") == "1\tat home"
    output = await desk.output(READ, file_path=str(tmp_path / "other.txt"))
    assert output == ToolOutput("1\toutside", trace(str(tmp_path / "other.txt"), b"outside"))


async def test_a_name_that_is_not_utf8_is_shown_visibly(desk: Desk) -> None:
    desk.put(b"bad\xff.txt", "text")
    output = await desk.output(READ, file_path="bad\udcff.txt")
    assert output == ToolOutput("1\ttext", Trace(read=("bad\\xff.txt",)))


async def test_a_name_that_is_not_utf8_is_read_as_it_is_shown(desk: Desk) -> None:
    name = os.fsdecode(b"caf\xe9_\xff.py")
    desk.put(name, "x = 1")
    assert await desk.output(READ, file_path="caf\\xe9_\\xff.py") == ToolOutput(
        "1\tx = 1", Trace(read=("caf\\xe9_\\xff.py",))
    )


async def test_a_spelled_byte_never_stands_for_a_character_that_a_rule_speaks_of(desk: Desk) -> None:
    desk.put(".env", "KEY=CANARY")
    with pytest.raises(ToolError, match="does not exist"):
        await desk.use(READ, file_path="\\x2eenv")


async def test_a_file_that_really_has_a_backslash_in_its_name_is_the_one_that_is_read(desk: Desk) -> None:
    desk.put(os.fsdecode(b"\xff.py"), "strange")
    desk.put("\\xff.py", "plain")
    assert await desk.use(READ, file_path="\\xff.py") == "1\tplain"
