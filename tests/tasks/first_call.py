"""The first call of an agent, its costs and its answer."""

from gencode.testing import says
from tests.tasks.budget_tree import (
    SENT,
)

CALL = 10_000
COSTS = {"inputTokens": CALL - 10, "outputTokens": 10}
FIRST = [says("", *SENT[:2], usage=COSTS), says("told", usage=COSTS)]
FOUND = says("found", usage=COSTS)
