"""The files of the page."""

from pathlib import Path

import gencode.interfaces.http

STATIC = Path(gencode.interfaces.http.__file__).parent / "static"
