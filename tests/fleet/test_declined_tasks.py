"""What a worker remembers of tasks that it could not run."""

from gencode.fleet.task_handoff import NEAR_SECONDS, RetryDelays


def test_a_task_is_tried_again_soon_at_first_and_then_less_often() -> None:
    reluctance = RetryDelays()
    assert [reluctance.next_delay("a") for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert [reluctance.next_delay("b", NEAR_SECONDS) for _ in range(3)] == [0.5, 1.0, 1.0]
