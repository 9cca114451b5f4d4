"""What a scripted call costs."""

from typing import Any

from gencode.testing import call, says

CALL = 10_000
"""What every call costs."""
COSTS = {"inputTokens": CALL - 10, "outputTokens": 10}
LOOK = says("", call("Glob", pattern="*"), usage=COSTS)


def sent(agents: int, **words: object) -> list[dict[str, Any]]:
    return [call("Task", subagent_type="Explore", prompt=f"{n}", **words) for n in range(agents)]
