"""Which pictures are taken from outside: whole in their form, of a size that vendors take."""

import base64
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pictures import WHOLE, gif, jpeg, packed, png, webp

from gencode.core.messages import Image
from gencode.files.images import LARGEST_PICTURE, WIDEST, picture

BROKEN = "that is cut or broken"
SIZED: dict[str, Callable[[int, int], bytes]] = {
    "png": png,
    "jpeg": jpeg,
    "gif": gif,
    "webp": partial(webp, "VP8X"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_picture_is_taken_however_it_is_spelled(kind: str) -> None:
    content = packed(WHOLE[kind])
    taken = Image(kind, content)
    lines = base64.encodebytes(WHOLE[kind]).decode().replace("\n", "\r\n")
    assert [picture(kind, content), picture(f" {kind.upper()}; q=1", lines)] == [taken, taken]


def test_a_jpeg_may_be_called_jpg() -> None:
    assert picture("image/jpg", packed(jpeg())) == Image("image/jpeg", packed(jpeg()))


@pytest.mark.parametrize("kind", WHOLE)
def test_a_picture_that_is_cut_anywhere_is_refused(kind: str) -> None:
    raw = WHOLE[kind]
    said = {str(picture(kind, packed(raw[:end]))) for end in range(12, len(raw))}
    assert said == {BROKEN}


@pytest.mark.parametrize("kind", WHOLE)
def test_what_follows_the_end_does_no_harm(kind: str) -> None:
    assert isinstance(picture(kind, packed(WHOLE[kind] + bytes(3))), Image)


@pytest.mark.parametrize("kind", SIZED)
def test_a_picture_without_size_or_of_too_many_pixels_is_refused(kind: str) -> None:
    assert isinstance(picture(f"image/{kind}", packed(SIZED[kind](WIDEST, WIDEST))), Image)
    words = f"of 8,001 x 9 pixels, more than {WIDEST:,} in a row or column"
    assert picture(f"image/{kind}", packed(SIZED[kind](8_001, 9))) == words
    if kind != "webp":  # which says one less than it is
        assert picture(f"image/{kind}", packed(SIZED[kind](0, 9))) == BROKEN


def test_every_form_of_webp_tells_its_size() -> None:
    forms = ("VP8L", "VP8X", "VP8 ")
    assert all(isinstance(picture("image/webp", packed(webp(form, 7, 8_000))), Image) for form in forms)
    words = "of 9 x 8,001 pixels, more than 8,000 in a row or column"
    assert [picture("image/webp", packed(webp(form, 9, 8_001))) for form in forms] == [words] * 3


def test_the_bound_is_in_bytes_of_the_picture() -> None:
    room = LARGEST_PICTURE - len(png(filling=1)) + 1
    assert isinstance(picture("image/png", packed(png(filling=room))), Image)
    assert picture("image/png", packed(png(filling=room + 1))) == "of more than 3,932,160 bytes"
    assert picture("image/png", "A" * 10_000_000) == "of more than 3,932,160 bytes"


@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_whatever_follows_a_right_beginning_is_judged(kind: str, data: st.DataObject) -> None:
    raw = WHOLE[kind]
    at = data.draw(st.integers(0, len(raw)))
    changed = raw[:at] + data.draw(st.binary(max_size=40)) + raw[data.draw(st.integers(at, len(raw))) :]
    judged = picture(kind, packed(changed))
    assert judged == Image(kind, packed(changed)) or isinstance(judged, str)


def test_a_picture_of_endless_parts_is_given_up() -> None:
    endless = png()[:33] + b"\0\0\0\0tEXt\0\0\0\0" * 300_000 + png()[33:]
    assert picture("image/png", packed(endless)) == BROKEN
    assert picture("image/jpeg", packed(b"\xff\xd8" + b"\xff" * 3_000_000 + jpeg()[2:])) == BROKEN
