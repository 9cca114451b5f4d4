"""The order of the files that were found."""

from gencode.offline_search.best_passages import MatchedFile, best_passages
from gencode.offline_search.code_blocks import CodeLine
from gencode.offline_search.query import query_of
from gencode.offline_search.ranking import ConceptWeights, RankedFile


def defining(path: str, score: float, *names: str) -> MatchedFile:
    """A file that defines functions of these names, each in three lines."""
    lines = [CodeLine(1 + 3 * place, f"def {name}(value):") for place, name in enumerate(names)]
    return MatchedFile(RankedFile(path, score, 1.0), lines, 3 * len(names))


def test_several_names_that_speak_for_a_file_outweigh_a_few_more_matches() -> None:
    query = query_of("Where are cookies encoded?")
    weights = ConceptWeights(*(((1.0,) * len(query.concepts),) * 3))
    once = defining("once.py", 1.3, "encoded_cookies")
    often = defining("often.py", 1.0, "encoded_cookies", "cookies_encoded", "cookie_encoded")
    assert [each.path for each in best_passages(query, weights, [once, often])] == ["often.py", "once.py"]
