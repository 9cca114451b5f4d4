"""What a worker remembers of tasks that it could not run."""

from gencode.engines.reluctance import FORGET_SECONDS, NEAR_SECONDS, Reluctance
from gencode.runtime.fleet import Stuck


def stuck(task: str, agent: str) -> Stuck:
    return Stuck(task, agent, "/folder", 1.0, 0)


def test_a_task_is_tried_again_soon_at_first_and_then_less_often() -> None:
    reluctance = Reluctance()
    assert [reluctance.again("a") for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert [reluctance.again("b", NEAR_SECONDS) for _ in range(3)] == [0.5, 1.0, 1.0]


def test_an_agent_that_is_not_here_is_left_to_others_for_a_while() -> None:
    now = 0.0
    reluctance = Reluctance(lambda: now)
    waiting = [stuck("a", "Rare"), stuck("b", "other")]
    assert reluctance.served(["explore"], waiting) == {"explore", "rare", "other"}
    reluctance.lacks("a", "Rare")
    assert reluctance.served(["explore", "rare"], waiting) == {"explore", "other"}
    now += FORGET_SECONDS
    assert reluctance.served(["explore"], waiting) == {"explore", "rare", "other"}


def test_an_agent_that_one_folder_lacks_is_served_for_another_folder() -> None:
    reluctance = Reluctance()
    reluctance.lacks("a", "rare")
    assert reluctance.served([], [stuck("a", "rare"), stuck("b", "rare")]) == {"rare"}
