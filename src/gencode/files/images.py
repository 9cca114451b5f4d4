"""runtime: pictures that come from outside, as models can be shown them, and why others cannot be."""

import base64
import binascii

from gencode.core.messages import Image
from gencode.files.image_formats import FORMS

LARGEST_PICTURE = 3_932_160
"""So many bytes a picture has at most: vendors take 5 MiB of it as base64."""
MOST_PICTURES = 20
MOST_TOGETHER = 3 * LARGEST_PICTURE // 3 * 4
"""So many characters of base64 the pictures of a request have together, as vendors bound it: three large."""
WIDEST = 8_000
"""So many pixels a picture is wide and high at most."""
KINDS = frozenset(FORMS)
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def kind_of(said: str) -> str:
    """A media type as it is usually written."""
    kind = said.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def picture(said: str, content: str) -> Image | str:
    """A picture from its media type and its bytes as base64, or what is wrong with it, in a few words.

    It is not decoded: what only looks like one may still be refused by a model's provider.
    """
    kind = kind_of(said)
    if kind not in KINDS:
        return f"of the kind {said[:60]!r}"
    if len(content) > 2 * LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    try:
        raw = base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        return "that cannot be read"
    if len(raw) > LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    return _sound(kind, raw)


def _sound(kind: str, raw: bytes) -> Image | str:
    form = FORMS[kind]
    if not form.begins(raw):
        return f"that is no {kind}"
    size = form.size(raw)
    if size is None or not all(size):
        return "that is cut or broken"
    if max(size) > WIDEST:
        return f"of {size[0]:,} x {size[1]:,} pixels, more than {WIDEST:,} in a row or column"
    return Image(kind, base64.b64encode(raw).decode())
