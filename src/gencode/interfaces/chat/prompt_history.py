"""The history of prompts, of all sessions: a private file with one JSON string on each line."""

import json
import os
from contextlib import suppress
from pathlib import Path

from gencode.permissions.whole_files import write_private_file

MAX_PROMPTS = 1_000
MAX_PROMPT_CHARACTERS = 20_000


class PromptHistory:
    """Earlier prompts, the newest last, and a position among them while the user browses."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._prompts = _read(file) if file else []
        self._at: int | None = None
        self._draft = ""

    @property
    def prompts(self) -> tuple[str, ...]:
        """All of them, the oldest first."""
        return tuple(self._prompts)

    def add(self, prompt: str) -> None:
        """Add a prompt; the same one twice in a row is kept once."""
        self._at = None
        self._draft = ""
        if not prompt.strip() or len(prompt) > MAX_PROMPT_CHARACTERS or self._prompts[-1:] == [prompt]:
            return
        self._prompts = [*self._prompts, prompt][-MAX_PROMPTS:]
        if self._file is not None:
            _append(self._file, prompt)

    def earlier(self, typed: str) -> str | None:
        """The prompt before the one that is shown; what was typed is kept. None when there is none."""
        at = len(self._prompts) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = typed
        self._at = at - 1
        return self._prompts[self._at]

    def later(self) -> str | None:
        """The prompt after the one that is shown, and at last what was typed; None outside of history."""
        if self._at is None:
            return None
        if self._at + 1 >= len(self._prompts):
            self._at = None
            return self._draft
        self._at += 1
        return self._prompts[self._at]


def _read(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in lines[-MAX_PROMPTS:]:
        try:
            prompt: object = json.loads(line)
        except ValueError:
            continue
        if isinstance(prompt, str):
            found.append(prompt)
    if len(lines) > 2 * MAX_PROMPTS:
        _rewrite(file, found)
    return found


def _append(file: Path, prompt: str) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as lines:
            lines.write(json.dumps(prompt) + "\n")
    except OSError:
        return


def _rewrite(file: Path, prompts: list[str]) -> None:
    """Only the newest prompts; whole or not at all."""
    with suppress(OSError):
        write_private_file(file, "".join(json.dumps(prompt) + "\n" for prompt in prompts).encode())
