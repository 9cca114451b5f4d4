"""The offline model's words: identifiers taken apart, stems, patterns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.offline_search.code_synonyms import synonyms_of
from gencode.offline_search.query import any_pattern, query_of
from gencode.offline_search.stemmer import name_parts, question_words, stem


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("parseHTTPHeader", ["parse", "http", "header"]),
        ("get_user_by_id", ["get", "user", "by", "id"]),
        ("LRUCache::Prune", ["lru", "cache", "prune"]),
        ("fourOhFour", ["four", "oh", "four"]),
        ("MAX_SIZE", ["max", "size"]),
    ],
)
def test_an_identifier_is_taken_apart(identifier: str, words: list[str]) -> None:
    assert name_parts(identifier) == words


@pytest.mark.parametrize(
    "forms",
    [
        "validate validated validator validation valid",
        "retry retries retried retrying",
        "serialize serialise serialization serializer",
        "page pages paging paged",
        "log logs logged logger logging",
        "mine mined mining",
        "subscribe subscriber subscription",
        "colour color coloured",
        "write writes writer writing written",
    ],
)
def test_the_forms_of_a_word_share_their_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("log", "login"), ("mine", "min"), ("user", "use"), ("page", "pager_")]
)
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@given(st.text(max_size=40))
def test_any_text_has_stems_of_lower_case_letters_or_digits(text: str) -> None:
    assert all(stem(part) == stem(part).lower() and stem(part) for part in name_parts(text))


@pytest.mark.parametrize("text", ["log", "logger", "error_log", "errorLog", "LOG_LEVEL", "logging.info"])
def test_a_short_stem_is_found_where_a_part_begins(text: str) -> None:
    assert re.search(any_pattern([stem("log")]), text)


@pytest.mark.parametrize("text", ["catalog", "login", "dialogue", "logic"])
def test_a_short_stem_is_not_found_inside_other_words(text: str) -> None:
    assert not re.search(any_pattern([stem("log")]), text)


@pytest.mark.parametrize("text", ["validate", "isValid", "re_validation", "VALIDATOR", "SchemaValidator"])
def test_a_long_stem_is_found_with_any_ending(text: str) -> None:
    assert re.search(any_pattern([stem("validated")]), text)


@given(st.text(max_size=80))
def test_every_text_makes_patterns_that_compile(text: str) -> None:
    query = query_of(text)
    patterns = [concept.pattern for concept in query.concepts]
    patterns += [concept.kin_pattern for concept in query.concepts if concept.kin]
    patterns += [query.pair_pattern(pair) for pair in query.pairs]
    assert all(re.compile(pattern).pattern for pattern in patterns)


def test_neighbours_are_also_searched_as_one_word() -> None:
    query = query_of("Where does the thread pool grow?")
    (pair,) = [each for each in query.pairs if query.concepts[each[0]].word == "thread"]
    found = [
        bool(re.search(query.pair_pattern(pair), text))
        for text in ("threadpool", "ThreadPool", "thread_pool", "pool")
    ]
    assert found == [True, True, True, False]


def test_a_phrase_is_searched_by_its_short_name_too() -> None:
    words = {
        kin
        for concept in query_of("How is cross-site request forgery prevented?").concepts
        for kin, _ in concept.kin
    }
    assert "csrf" in words


def test_kin_is_mutual() -> None:
    assert "dir" in dict(synonyms_of(stem("directory")))
    assert stem("directory") in dict(synonyms_of("dir"))


def test_a_long_prompt_is_cut_down_to_what_it_asks() -> None:
    prompt = "Some background that does not matter. " * 300 + "Where are cookies parsed?"
    assert [concept.word for concept in query_of(prompt).concepts] == ["cookies", "parsed"]


def test_the_number_of_concepts_is_bounded() -> None:
    many = " ".join(f"word{chr(97 + number)}x" for number in range(26))
    assert len(query_of(many).concepts) <= 9


def test_a_word_that_only_introduces_the_question_is_not_searched() -> None:
    assert [each.word for each in query_of("Which class parses cookies?").concepts] == ["parses", "cookies"]
    assert "search" in [each.word for each in query_of("Where are old search terms stored?").concepts]


def test_a_name_with_underscores_is_one_word_and_a_contraction_is_none() -> None:
    assert question_words("Why doesn't url_for use the user's host?") == [
        "Why",
        "url_for",
        "use",
        "the",
        "user",
        "host",
    ]


def test_a_word_of_the_question_is_no_synonym_of_another_one() -> None:
    read, load = query_of("How is what was read loaded again?").concepts[:2]
    assert load.stem in {kin for kin, _ in synonyms_of(read.stem)}
    assert load.stem not in {kin for kin, _ in read.kin}


@pytest.mark.parametrize(("name", "short"), [("GitHub", "gh"), ("TypeScript", "ts")])
def test_a_name_in_capitalized_parts_is_also_found_by_its_initials(name: str, short: str) -> None:
    (concept,) = query_of(f"Where is {name}?").concepts
    assert short in {kin for kin, _ in concept.kin}


def test_the_name_of_a_variable_has_no_initials() -> None:
    (concept,) = query_of("Where is gitHub?").concepts
    assert "gh" not in {kin for kin, _ in concept.kin}
