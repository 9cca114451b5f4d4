"""Decodes the body of an HTTP response: media type and character set."""

import codecs
import re
from typing import Literal

from gencode.web.html import StartTag, tokens

Shape = Literal["html", "text", "other"]

_SNIFFED = 2_048
_TYPE = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9_.+-]{1,80}")
_LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
_CHARSET = re.compile(r"charset\s*+=\s*+[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*+(?:<!--.{0,500}?-->\s*+)?<(?:!doctype html|html|head|body|title)\b", re.IGNORECASE | re.DOTALL
)
_TEXT_TYPE = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|sql|graphql|javascript|ecmascript|x-[a-z]*script"
    r"|x-sh|x-yaml|x-ndjson|jsonlines|rtf|x-tex|x-www-form-urlencoded)|image/svg\+xml|.*\+(?:json|xml)"
)
_UNSAID = frozenset({"", "application/octet-stream", "binary/octet-stream", "unknown/unknown"})
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LEGACY = "cp1252"
# Browsers read these as their larger relatives; whatever is not here (UTF-7 among them) is not read at all.
_ENCODINGS = {
    **{name: name for name in ("utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5", "euc_jp", "iso2022_jp")},
    **{name: name for name in ("koi8-r", "koi8-u", "cp866", "mac-roman", "mac-cyrillic", "big5hkscs")},
    **{f"iso8859-{number}": f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"cp{number}": f"cp{number}" for number in (874, *range(1250, 1259))},
    **dict.fromkeys(("ascii", "iso8859-1"), _LEGACY),
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "utf-16": "utf-16-le",
    **dict.fromkeys(("gb2312", "gbk", "hz"), "gb18030"),
    **dict.fromkeys(("shift_jis", "cp932"), "cp932"),
    **dict.fromkeys(("euc_kr", "cp949"), "cp949"),
}


def media_type(content_type: str) -> str:
    """The type of a `Content-Type` header without its parameters, in lower case; empty when it is none."""
    said = content_type.partition(";")[0].strip().lower()
    return said if _TYPE.fullmatch(said) else ""


def shape_of(body: bytes, content_type: str) -> Shape:
    """Whether a page is HTML, other text, or something that is not read."""
    said = media_type(content_type)
    head = body[:_SNIFFED]
    if said in _HTML_TYPES or (said in _UNSAID and _LOOKS_LIKE_HTML.match(head)):
        return "html"
    readable = any(head.startswith(bom) for bom, _ in _BOMS) or _is_text(head) or "utf-16" in content_type
    return "text" if readable and (said in _UNSAID or _TEXT_TYPE.fullmatch(said)) else "other"


def decoded(body: bytes, content_type: str, shape: Shape) -> str:
    """A page as text: by its byte order mark, its header, its own word, or by what its bytes look like."""
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    said = _CHARSET.search(content_type)
    encoding = _known(said[1]) if said else ""
    if not encoding and shape == "html":
        encoding = _known(_own_word(body))
    if encoding:
        return body.decode(encoding, "replace")
    # The last character may be incomplete.
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return body.decode(_LEGACY, "replace")


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        odd = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
        return odd <= len(head) // 20
    return True


def _known(label: str) -> str:
    """The encoding of a label, if it is one that pages are written in."""
    if not _LABEL.fullmatch(label):
        return ""
    try:
        return _ENCODINGS.get(codecs.lookup(label).name, "")
    except LookupError:
        return ""


def _own_word(body: bytes) -> str:
    """The character set that the first `meta` of a page declares."""
    for token in tokens(body[:_SNIFFED].decode("ascii", "replace")):
        if isinstance(token, StartTag) and token.name == "meta":
            if label := token.get("charset").strip():
                return _utf8_if_wide(label)
            if token.get("http-equiv").lower() == "content-type" and (
                said := _CHARSET.search(token.get("content"))
            ):
                return _utf8_if_wide(said[1])
    return ""


def _utf8_if_wide(label: str) -> str:
    """A page whose tags are readable as ASCII is not UTF-16, whatever it declares."""
    return "utf-8" if label.lower().startswith("utf-16") else label
