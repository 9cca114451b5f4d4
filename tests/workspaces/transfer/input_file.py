"""A file that is part of what is sent."""

import subprocess
from pathlib import Path


def with_input(folder: Path, *words: str, text: bytes) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, input=text, check=True, capture_output=True).stdout
