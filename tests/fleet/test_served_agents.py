"""Which agents a worker takes tasks of: its own, and those that come along with a folder."""

from gencode.fleet.queue import FORGET_SECONDS, ServedAgents


def test_an_agent_that_is_not_here_is_left_to_others_for_a_while() -> None:
    now = 0.0
    repertoire = ServedAgents(clock=lambda: now)
    repertoire.learn(["Explore"], [("c", "third")])
    assert repertoire.names() == ["explore", "third"]
    waiting = [("a", "Rare"), ("b", "other")]
    assert repertoire.serve_waiting(waiting) == {"rare", "other"}
    assert repertoire.serve_waiting(waiting) == set()
    repertoire.note_missing("a", "Rare")
    assert repertoire.drop_missing(waiting) == {"rare"}
    assert repertoire.serve_waiting(waiting) == set()
    assert repertoire.names() == ["explore", "other", "third"]
    now += FORGET_SECONDS
    assert repertoire.serve_waiting(waiting) == {"rare"}


def test_an_agent_that_one_folder_lacks_is_served_for_another_folder() -> None:
    repertoire = ServedAgents()
    repertoire.note_missing("a", "rare")
    assert repertoire.serve_waiting([("a", "rare")]) == set()
    both = [("a", "rare"), ("b", "rare")]
    assert repertoire.serve_waiting(both) == {"rare"}
    assert repertoire.drop_missing(both) == set()


def test_an_agent_of_this_machine_is_served_although_a_folder_hides_it() -> None:
    repertoire = ServedAgents()
    repertoire.learn(["rare"], [])
    repertoire.note_missing("a", "rare")
    assert repertoire.drop_missing([("a", "rare")]) == set()
    assert repertoire.names() == ["rare"]


def test_where_agents_are_named_no_other_one_is_served() -> None:
    repertoire = ServedAgents(["Explore"])
    repertoire.learn(["Plan"], [("a", "rare")])
    assert repertoire.serve_waiting([("a", "rare")]) == set()
    assert (repertoire.admit("rare"), repertoire.admit("explore")) == (False, True)
    assert repertoire.names() == ["explore"]


def test_an_agent_whose_folder_is_here_is_served_from_then_on() -> None:
    repertoire = ServedAgents()
    assert repertoire.admit("Rare")
    assert repertoire.names() == ["rare"]
