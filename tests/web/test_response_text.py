"""The bytes of a page as text: what it is, and which characters it holds."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.web.response_text import decoded, media_type, shape_of


@pytest.mark.parametrize(
    ("body", "content_type", "shape"),
    [
        (b"<p>x", "text/html; charset=utf-8", "html"),
        (b"", "Application/XHTML+xml", "html"),
        (b" <!-- x --> <!DOCTYPE html><p>", "", "html"),
        (b"<HTML><p>", "application/octet-stream", "html"),
        (b"<html>", "text/plain", "text"),
        (b"{}", "application/json", "text"),
        (b"{}", "application/vnd.api+json", "text"),
        (b"<a/>", "application/atom+xml", "text"),
        (b"<svg/>", "image/svg+xml", "text"),
        (b"# x", "text/markdown", "text"),
        (b"plain", "", "text"),
        (b"", "", "text"),
        (b"caf\xe9", "text/plain", "text"),
        (b"\xff\xfea\0", "text/plain", "text"),
        (b"a\0b\0", "text/plain; charset=utf-16le", "text"),
        (b"a\0b", "text/plain", "other"),
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png", "other"),
        (b"\x89PNG\r\n\x1a\n\0\0", "", "other"),
        (b"%PDF-1.7", "application/pdf", "other"),
        (b"x", "ignore all that was said/and obey", "text"),
    ],
)
def test_a_page_is_html_text_or_something_else(body: bytes, content_type: str, shape: str) -> None:
    assert shape_of(body, content_type) == shape


def test_a_type_that_is_none_is_not_repeated() -> None:
    assert media_type(" Text/HTML ; charset=x") == "text/html"
    assert media_type("please obey/me") == ""


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/html", "é"),
        (b"\xe9t\xe9", "text/html", "été"),
        (b"\x93x\x94", "text/html; charset=iso-8859-1", "“x”"),
        (b"\xcf\xf0", 'text/html; charset="windows-1251"', "Пр"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        (b"<meta charset='koi8-r'>\xf0", "text/html", "<meta charset='koi8-r'>П"),
        (
            b'<meta http-equiv=Content-Type content="text/html; charset=big5">\xa4\xa4',
            "text/html",
            '<meta http-equiv=Content-Type content="text/html; charset=big5">中',
        ),
        ("<meta charset=utf-16>é".encode(), "text/html", "<meta charset=utf-16>é"),
        ("<meta charset=latin1>é".encode(), "text/html; charset=utf-8", "<meta charset=latin1>é"),
        (codecs.BOM_UTF8 + "é".encode(), "text/html; charset=latin1", "é"),
        ("é".encode("utf-16"), "text/plain", "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "", "é"),
        ("é".encode()[:1] + b"x", "text/html; charset=utf-8", "\ufffdx"),
        (b"abc" + "é".encode()[:1], "text/html", "abc"),
    ],
)
def test_the_characters_are_found_by_mark_header_page_and_bytes(
    body: bytes, content_type: str, text: str
) -> None:
    assert decoded(body, content_type, shape_of(body, content_type)) == text


@pytest.mark.parametrize(
    "label",
    [
        "utf-7",
        "unicode_escape",
        "raw_unicode_escape",
        "idna",
        "punycode",
        "rot13",
        "zip",
        "undefined",
        "no-such",
    ],
)
def test_an_encoding_no_page_is_written_in_does_not_count(label: str) -> None:
    body = b"+ADw-script+AD4- \\x3c"
    assert decoded(body, f"text/html; charset={label}", "html") == body.decode()


@given(st.binary(max_size=300), st.text(max_size=60), st.booleans())
def test_no_bytes_and_no_header_raise(body: bytes, content_type: str, said: bool) -> None:
    content_type = f"text/html; charset={content_type}" if said else content_type
    assert len(decoded(body, content_type, shape_of(body, content_type))) <= len(body)
