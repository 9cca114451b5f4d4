"""What a person is to hear now and then, however often it is so."""

import asyncio
from math import inf

EVERY_SECONDS = 60.0


class NoticeThrottle:
    """Something that many agents may have to say, such as that they wait: told once in so many seconds."""

    def __init__(self, seconds: float = EVERY_SECONDS) -> None:
        self._seconds = seconds
        self._said_at = -inf

    def due(self) -> bool:
        """Whether a person is to hear it now; then not again for a while."""
        now = asyncio.get_running_loop().time()
        if now < self._said_at + self._seconds:
            return False
        self._said_at = now
        return True
