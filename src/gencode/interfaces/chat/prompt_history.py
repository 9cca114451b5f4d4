"""What a person typed before, in all sessions: a file of their own, one prompt on each line."""

import json
import os
from pathlib import Path

MOST = 1_000
LONGEST = 20_000


class PromptHistory:
    """Earlier prompts, the newest last, and a place among them while somebody looks through them."""

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
        """Remember a prompt; the same one twice in a row counts once."""
        self._at = None
        self._draft = ""
        if not prompt.strip() or len(prompt) > LONGEST or self._prompts[-1:] == [prompt]:
            return
        self._prompts = [*self._prompts, prompt][-MOST:]
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
    for line in lines[-MOST:]:
        try:
            prompt: object = json.loads(line)
        except ValueError:
            continue
        if isinstance(prompt, str):
            found.append(prompt)
    if len(lines) > 2 * MOST:
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
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts), "utf-8")
        fresh.chmod(0o600)
        fresh.replace(file)
    except OSError:
        return
