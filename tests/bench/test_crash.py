"""A few kills of the large trial in `bench/crash.py`; `GEN_KILLS` asks for more."""

import os
import random

from bench import crash

SEED = int(os.environ.get("GEN_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
KILLS = int(os.environ.get("GEN_KILLS", "3"))


def test_a_conversation_that_is_killed_again_and_again_loses_and_repeats_nothing() -> None:
    print(f"GEN_SEED={SEED}")
    found = crash.trial(random.Random(SEED), KILLS)
    assert found.lost == []
    assert found.kills <= KILLS
