"""The terminal app, on Textual: renderers of the session's view. Nothing here decides anything."""

import os
from importlib import import_module

FRAMES = "120"
"""A key press waits for the next frame, now and then for the one after it: 33 ms with Textual's own 60."""


def _quicken() -> None:
    """Have Textual look so often whether there is something to draw, unless the person said how often.

    It reads that from its environment once, when it is loaded; what we start must not find it there.
    """
    if "TEXTUAL_FPS" in os.environ:
        return
    os.environ["TEXTUAL_FPS"] = FRAMES
    try:
        import_module("textual.constants")
    finally:
        del os.environ["TEXTUAL_FPS"]


_quicken()
