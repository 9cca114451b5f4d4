"""Edit as a rule: it is `str.replace` on the text, and every byte that it does not speak of stays."""

import asyncio
from difflib import SequenceMatcher

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.core.errors import ToolError
from gencode.tools.edit import EDIT
from gencode.tools.file_changes import difference
from gencode.tools.read import READ
from gencode.tools.write import WRITE
from tests.tools.desk import Desk

ANY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
LETTERS = st.text("ab\n é→", max_size=30)
BRIEF = st.text("ab\n é→", max_size=3)
ENCODINGS = {
    "utf-8": b"",
    "utf-8-sig": b"",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
}


def edited(desk: Desk, before: bytes, edits: list[tuple[str, str, bool]]) -> bytes | None:
    """The file after the edits; None when they were refused, and then it is as it was."""
    desk.put("f", before)
    asked = [{"old_string": old, "new_string": new, "replace_all": every} for old, new, every in edits]

    async def run() -> None:
        await desk.use(READ, file_path="f")
        await desk.use(EDIT, file_path="f", edits=asked)

    try:
        asyncio.run(run())
    except ToolError:
        assert (desk.root / "f").read_bytes() == before
        return None
    return (desk.root / "f").read_bytes()


def overlapping(text: str, old: str) -> int:
    return sum(text.startswith(old, at) for at in range(len(text)))


def replaced(text: str, edits: list[tuple[str, str, bool]]) -> str | None:
    """What the edits mean, in the plainest words."""
    for old, new, every in edits:
        times = overlapping(text, old) if old else int(text == "")
        if old == new or times == 0 or (times > 1 and not every):
            return None
        text = text.replace(old, new) if old else new
    return text


@ANY
@given(LETTERS, st.lists(st.tuples(BRIEF, BRIEF, st.booleans()), min_size=1, max_size=3))
def test_edits_are_replacements_all_or_none(
    desk: Desk, text: str, edits: list[tuple[str, str, bool]]
) -> None:
    after = replaced(text, edits)
    assert edited(desk, text.encode(), edits) == (None if after is None else after.encode())


@ANY
@given(LETTERS.filter(bool), BRIEF.filter(bool), BRIEF, st.sampled_from(sorted(ENCODINGS)), st.booleans())
def test_every_encoding_and_crlf_are_kept(
    desk: Desk, text: str, old: str, new: str, encoding: str, crlf: bool
) -> None:
    def as_file(lines: str) -> bytes:
        ends = lines.replace("\n", "\r\n") if crlf and "\n" in text else lines
        return ENCODINGS[encoding] + ends.encode(encoding)

    after = replaced(text, [(old, new, True)])
    assert edited(desk, as_file(text), [(old, new, True)]) == (None if after is None else as_file(after))


@ANY
@given(
    st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"")),
    st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"")),
    st.sampled_from(["\r\n", "\n", "\r", ""]),
)
def test_bytes_that_are_no_utf8_stay_where_they_are(desk: Desk, head: bytes, tail: bytes, end: str) -> None:
    text = b"some plain words before it\n" * 40
    before = text + head + b"<MARK>" + tail
    after = edited(desk, before, [("<MARK>", f"new{end}", False)])
    crlf = 0 < before.count(b"\n") == before.count(b"\r\n")
    new = b"new" + (end.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else end).encode()
    assert after in (None, text + head + new + tail)
    assert after is not None or head.count(b"<MARK>") + tail.count(b"<MARK>") or is_odd(before)


def is_odd(data: bytes) -> bool:
    """Whether bytes are so many controls beside text that is no UTF-8 that the file counts as binary."""
    odd = sum(byte < 32 and byte not in b"\t\n\r\f\b\x1b" for byte in data) + data.count(b"\x7f")
    return odd > len(data) // 20


@ANY
@given(st.text(max_size=50).filter(lambda text: text.isascii() or text.isprintable()))
def test_what_is_written_is_what_is_there(desk: Desk, content: str) -> None:
    (desk.root / "new").unlink(missing_ok=True)
    asyncio.run(desk.use(WRITE, file_path="new", content=content))
    assert (desk.root / "new").read_bytes() == content.encode()


@ANY
@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_a_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    shown = difference(before, after)
    if before == after:
        assert shown == "(no changes)"
        return
    lines = [line for line in shown.split("\n") if not line.startswith(("@@", "\\"))]
    gone = [line[1:] for line in lines if line[:1] in " -"]
    come = [line[1:] for line in lines if line[:1] in " +"]
    for text, part in ((before, gone), (after, come)):
        found = SequenceMatcher(None, text.split("\n"), part, autojunk=False).get_matching_blocks()
        assert sum(block.size for block in found) >= len(part)


@pytest.mark.parametrize("most", [10, 3_000])
def test_a_difference_of_any_size_is_the_same_in_its_first_lines(most: int) -> None:
    before = "".join(f"{n}\n" for n in range(most))
    after = before.replace("5\n", "five\n", 1)
    assert difference(before, after) == "\n".join(
        ["@@ -3,7 +3,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"]
    )
