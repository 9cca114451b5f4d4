"""Who may do what over HTTP: tokens, the rights they carry, and a bound on guessing (surfaces, server).

Looking, acting and answering questions are three rights. Whoever acts cannot approve what agents ask for,
unless the token says so.
"""

import os
import secrets
import stat
import time
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Literal, get_args

from gencode.core.errors import UserMistake

Right = Literal["view", "act", "answer"]
RIGHTS: tuple[Right, ...] = get_args(Right)
ROLES: Mapping[Right, frozenset[Right]] = {
    "view": frozenset({"view"}),
    "act": frozenset({"view", "act"}),
    "answer": frozenset({"view", "answer"}),
}
"""What a token with a role may do; the owner's token may do all of it."""
OWNER: frozenset[Right] = frozenset(RIGHTS)
TOKEN_BYTES = 32
SHORTEST = 22
"""So many characters of base64 are 128 bits."""
LONGEST = 200
FEW = 10
"""So many wrong tokens of one peer are answered within the window; after that it has to wait."""
WINDOW_SECONDS = 60.0
MOST_PEERS = 1024


class Keys:
    """The tokens of one server. Only their digests are compared, and every one of them, in constant time."""

    def __init__(self, owner: str = "", shared: Sequence[Right] = ()) -> None:
        self.owner = owner or secrets.token_urlsafe(TOKEN_BYTES)
        self.shared: list[tuple[Right, str]] = [(role, secrets.token_urlsafe(TOKEN_BYTES)) for role in shared]
        self._digests = [(_digest(self.owner), OWNER)]
        self._digests += [(_digest(token), ROLES[role]) for role, token in self.shared]

    def rights(self, token: str) -> frozenset[Right]:
        """What whoever shows this token may do; nothing for a wrong one."""
        shown = _digest(token)
        found: frozenset[Right] = frozenset()
        for digest, rights in self._digests:
            if compare_digest(digest, shown):
                found = rights
        return found


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def kept_token(path: Path) -> str:
    """The token that a file keeps from one start to the next; made when it is not there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}; name another file.") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(handle, "w") as file:
        file.write(f"{token}\n")
    return token


def _read_token(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(LONGEST + 2) if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        raise UserMistake(f"{path} cannot be read: {error.strerror}; name another file.") from None
    if found.st_mode & 0o077:
        raise UserMistake(f"{path} can be read by others; say: chmod 600 {path}")
    token = text.decode("ascii", "replace").strip()
    if not SHORTEST <= len(token) <= LONGEST or not all(each.isalnum() or each in "-_" for each in token):
        raise UserMistake(
            f"{path} holds no token: {SHORTEST} to {LONGEST} letters, digits, - and _; delete it to get one."
        )
    return token


class Guesses:
    """Counts wrong tokens by peer. A right token is never refused, so nobody can be locked out."""

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}

    def too_many(self, peer: str) -> bool:
        """Note one wrong token of a peer; whether it has to wait now."""
        now = time.monotonic()
        times = self._wrong.pop(peer, None) or deque[float](maxlen=FEW + 1)
        times.append(now)
        self._wrong[peer] = times
        if len(self._wrong) > MOST_PEERS:
            del self._wrong[next(iter(self._wrong))]
        return len(times) > FEW and now - times[0] < WINDOW_SECONDS
