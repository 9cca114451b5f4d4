"""Results that fit a JSON Schema: which schemas count, how the text is read, what the model is told."""

import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.agent import output_schema
from gencode.agent.json_reply import MOST_DEPTH, MOST_TEXT, the_json_in
from gencode.agent.output_schema import LONGEST_COMPLAINT, SchemaMismatch, check_schema, read_output
from gencode.core.errors import ToolError, UserMistake

CHECKS = settings(max_examples=int(os.environ.get("GEN_EXAMPLES", "10")), deadline=None)

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"enum": []}, "the enum at $ has no values"),
    ({"not": {}}, "the not at $ excludes everything"),
    ({"allOf": [{"type": "string"}, {"not": True}]}, "the not at $.allOf[1] excludes everything"),
    ({"anyOf": [{"enum": []}, False]}, "the enum at $.anyOf[0] has no values"),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}},
        "the enum at $.properties.a has no values",
    ),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, "false stands at $.properties.a"),
]
"""What nothing can fit, and why."""
AGAIN = "Answer again with the whole JSON value and nothing else."
REPAIR = "Answer again with the whole JSON value, repaired, and nothing else."

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
)
finite = scalars.filter(lambda value: not isinstance(value, float) or abs(value) != float("inf"))
values = st.recursive(
    finite,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)
prose = st.text(st.characters(exclude_characters="`~{}[]", exclude_categories=["Cs"])).map(
    lambda text: f"So {text}\n"
)


def complaint(text: str, schema: dict[str, Any] | None = None) -> str:
    with pytest.raises(SchemaMismatch) as caught:
        read_output(text, schema or {})
    return str(caught.value)


def mistake(schema: object) -> str:
    with pytest.raises(UserMistake) as caught:
        check_schema(schema)
    return str(caught.value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_schema_is_copied() -> None:
    given = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}
    checked = check_schema(given)
    assert checked == given
    assert checked is not given
    assert checked["properties"] is not given["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor": "a", "type": "string"},
        {"$id": "https://example.org/thing", "$ref": "#/$defs/a", "$defs": {"a": {"$anchor": "x"}}},
        {"const": {"$ref": "https://example.org/only-a-value"}},
        {"type": "object", "x-order": ["own", "words", "are", "allowed"]},
        {"items": {"$ref": "#"}},
        {"type": "string", "pattern": "^(a+)+$", "format": "unheard-of"},
    ],
    ids=json.dumps,
)
def test_what_the_standard_knows_is_a_schema(schema: dict[str, Any]) -> None:
    assert check_schema(schema) == schema


@pytest.mark.parametrize(("schema", "why"), UNFIT, ids=json.dumps)
def test_a_schema_that_nothing_can_fit_is_refused_before_anything_runs(schema: object, why: str) -> None:
    assert mistake(schema) == f"No result can fit this output schema: {why}."


def test_what_may_not_be_there_at_all_is_told_in_words() -> None:
    schema = check_schema({"properties": {"a": {"enum": []}, "b": False, "c": {"not": {}}}})
    assert complaint('{"a": 1, "b": 2, "c": 3}', schema).splitlines()[1:4] == [
        "- at $.a: no value is allowed here; it is 1",
        "- at $.b: no value is allowed here; it is 2",
        "- at $.c: no value is allowed here; it is 3",
    ]


NOT_SCHEMAS: list[tuple[Any, str]] = [
    ([], "this is an array"),
    (None, "this is nothing"),
    ("object", "this is a text"),
    (True, "this is a truth value"),
    (7, "this is a number"),
    ({"name": "string", "age": "number"}, "this one asks for nothing"),
    ({"type": "strin"}, "at $.type"),
    ({"properties": {"a": {"minimum": "x"}}}, '$.properties.a.minimum: "x" is not of type "number"'),
    ({"required": "name"}, "at $.required"),
    ({"properties": []}, "at $.properties"),
    ({"$ref": "https://example.org/x.json"}, "'https://example.org/x.json' is neither"),
    ({"$ref": "file:///etc/passwd"}, "'file:///etc/passwd' is neither"),
    ({"$ref": "other.json"}, "'other.json' is neither"),
    ({"$schema": "https://example.org/meta", "type": "string"}, "'https://example.org/meta' is neither"),
    ({"$ref": "#/$defs/missing"}, "'/$defs/missing' does not exist"),
    (
        {"properties": {"a": {"type": "banana"}}},
        'at $.properties.a.type: "banana" is no type; there are string, number, integer, boolean, object',
    ),
    ({"pattern": "("}, "The pattern at $.pattern of the output schema cannot be used"),
    ({"pattern": "(?=look)"}, "without look-around"),
    ({"pattern": "((a{1000}){1000}){1000}"}, "it must be a small regular expression"),
    ({"patternProperties": {"(": {}}}, "cannot be used"),
    ({"type": "string", "title": "x" * 70_000}, "64 KiB"),
    ({"enum": list(range(20_000))}, "10,000 values"),
    ({"const": nested(MOST_DEPTH)}, "64 levels deep"),
    ({"allOf": [{"pattern": str(number)} for number in range(101)]}, "100 patterns; this one has 101"),
    ({"patternProperties": {str(number): {} for number in range(200)}}, "100 patterns; this one has 200"),
    ({"type": "object", 1: {}}, "its name '1' is not a text"),
    ({"const": float("nan")}, "no numbers such as NaN"),
    ({"const": 2**64}, "more than 64 bits"),
    ({"const": "\ud800"}, "lone surrogate"),
    ({"properties": {"\udfff": {}}}, "lone surrogate"),
    ({"const": b"bytes"}, "no values such as bytes"),
    ({"enum": ({1},)}, "no values such as tuple"),
]


@pytest.mark.parametrize(("schema", "said"), NOT_SCHEMAS, ids=lambda given: repr(given)[:40])
def test_what_is_not_a_schema_is_refused_in_a_sentence(schema: object, said: str) -> None:
    told = mistake(schema)
    assert said in told
    assert told.endswith(".")
    assert len(told) < 500


def test_a_schema_that_holds_itself_is_too_deep() -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = loop
    assert "levels deep" in mistake(loop)


def test_a_schema_that_unfolds_to_a_billion_values_is_too_large() -> None:
    bomb: Any = {"type": "string"}
    for _ in range(30):
        bomb = {"anyOf": [bomb, bomb]}
    assert "10,000 values" in mistake(bomb)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada"}',
        '\n  {"name": "Ada"}\n\n',
        '```json\n{"name": "Ada"}\n```',
        '```\n{"name": "Ada"}\n```',
        '~~~ JSON\n{"name": "Ada"}\n~~~',
        'Here it is:\n\n  ```json\n  {"name": "Ada"}\n  ```\n\nI hope it helps.',
        'First ```json\n{"name": "Bob"}\n```\nno, rather\n```json\n{"name": "Ada"}\n```',
        '```json\n{"name": "Ada"}\n```\nwhich I found with\n```sh\nls | wc -l\n```\n```\n3\n```',
        '```json\n{"name": "Ada"}\n```\nbut not\n```json\n{"name": "Ada",}\n```',
        'It was cut: ```\n```json\n{"name": "Ada"}',
        'The person is {"name": "Ada"}',
        'Not {"name": "Bob"}, but {"name": "Ada"}',
        'I thought of "{", [1] and { and it is\n{\n "name": "Ada"\n}',
        '````markdown\n```json\n```\n````\n{"name": "Ada"}',
    ],
)
def test_the_value_is_found_in_what_a_model_writes(text: str) -> None:
    assert read_output(text, PERSON) == {"name": "Ada"}


@pytest.mark.parametrize("text", ["42", "```\n42\n```", "The answer:\n```json\n42\n```"])
def test_a_value_may_be_a_plain_number(text: str) -> None:
    assert read_output(text, {"type": "integer"}) == 42


@given(value=values)
def test_every_value_comes_back_whole(value: Any) -> None:
    assert the_json_in(json.dumps(value)) == value
    assert the_json_in(json.dumps(value, ensure_ascii=False, indent=2)) == value


@given(value=containers, before=prose)
def test_every_value_is_found_at_the_end_of_prose(value: Any, before: str) -> None:
    assert the_json_in(before + json.dumps(value)) == value


@given(value=containers, before=prose, after=prose)
def test_every_value_is_found_in_a_fence(value: Any, before: str, after: str) -> None:
    assert the_json_in(f"{before}```json\n{json.dumps(value, indent=1)}\n```\n{after}") == value


@given(text=st.text() | st.text('{}[]",:\\`\n 1ae').map(lambda text: text * 3))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = the_json_in(text)
    except ValueError as refused:
        assert str(refused).endswith(".")
    else:
        assert json.loads(json.dumps(value)) == value


@CHECKS
@given(value=values, other=values)
def test_a_value_fits_the_schema_that_names_it_and_no_other_does(value: Any, other: Any) -> None:
    schema = {"const": value}
    assert read_output(json.dumps(value), schema) == value
    if json.dumps(other) != json.dumps(value) and other != value:
        assert complaint(json.dumps(other), schema).startswith(
            "The result does not fit its schema:\n- at $: "
        )


def test_the_model_is_told_what_does_not_fit_and_where() -> None:
    schema = {
        **PERSON,
        "properties": {
            **PERSON["properties"],
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "odd name": {"type": "object", "properties": {"x": {"maxLength": 2}}},
        },
    }
    text = json.dumps({"age": -1, "tags": ["a", "c"], "odd name": {"x": "long"}, "more": None})
    assert sorted(complaint(text, schema).splitlines()) == sorted(
        [
            "The result does not fit its schema:",
            '- at $: these members are not allowed: "more"',
            '- at $: the member "name" is missing',
            "- at $.age: the value is less than the minimum of 0; it is -1",
            '- at $.tags[1]: the value is not one of "a" or "b"; it is "c"',
            '- at $["odd name"].x: the value is longer than 2 characters; it is "long"',
            REPAIR,
        ]
    )


def test_of_several_forms_the_nearest_is_explained() -> None:
    forms = [
        {
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["kind", "radius"],
        },
        {
            "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
            "required": ["kind", "side"],
        },
    ]
    told = complaint('{"kind": "square", "side": "long"}', {"oneOf": forms})
    assert told.splitlines()[1:-1] == [
        "- at $: the value is not valid under any of the schemas listed in the 'oneOf' keyword; "
        'it is an object with "kind", "side" '
        '(nearest is form 2: at $.side: the value is not of type "number")'
    ]


def test_many_problems_of_one_kind_do_not_hide_another() -> None:
    told = complaint(json.dumps([*range(500), {}]), {"items": {"type": "string"}, "maxItems": 3})
    assert sorted(told.splitlines()[1:-1]) == [
        "- at $: the value has more than 3 items; it is an array of 501",
        '- at $[0]: the value is not of type "string"; it is 0',
        '- at $[1]: the value is not of type "string"; it is 1',
        '- at $[2]: the value is not of type "string"; it is 2',
    ]


def test_what_the_model_is_told_is_short() -> None:
    schema = {"properties": {f"n{number}{'n' * 300}": {"const": "x" * 500} for number in range(100)}}
    told = complaint(json.dumps(dict.fromkeys(schema["properties"], "y" * 5000)), schema)
    assert len(told) < LONGEST_COMPLAINT + 300
    assert len(told.splitlines()) <= 13
    assert told.splitlines()[-2:] == ["- and more", REPAIR]


@pytest.mark.parametrize(
    "text",
    ['Here: ```json\n{"a": 1}\n```', 'Here: ```json {"a": 1} ```', 'Result: {"a": 1}.', '```{"a": 1}```\n'],
)
def test_an_object_is_found_where_a_fence_or_a_full_stop_follows_it(text: str) -> None:
    assert read_output(text, {"type": "object"}) == {"a": 1}


def test_formats_count() -> None:
    schema = {"type": "string", "format": "date"}
    assert read_output('"2026-11-15"', schema) == "2026-11-15"
    assert 'the value is not a "date"; it is "soon"' in complaint('"soon"', schema)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The reply is empty; it should be a JSON value."),
        ("I could not find it.", "There is no JSON value in the reply."),
        (
            '{"a": 1,}',
            'The JSON value breaks at its line 1, column 9, near "{\\"a\\": 1,}": '
            "Expecting property name enclosed in double quotes.",
        ),
        (
            "```json\n{'a': 1}\n```",
            "The JSON value breaks at its line 1, column 2, near \"{'a': 1}\": "
            "Expecting property name enclosed in double quotes.",
        ),
        ('{"a": 1, "a": 2}', 'The JSON value has the name "a" twice in one object.'),
        ('So:\n{"x": {"a": 1, "a": 2}}', 'The JSON value has the name "a" twice in one object.'),
        ("[NaN]", "JSON has no number NaN; use null or a finite number."),
        ("[-Infinity]", "JSON has no number -Infinity; use null or a finite number."),
        ("[1e999]", "JSON has no number as large or as long as 1e999…; use null or a finite number."),
        (f"[{'9' * 5000}]", "JSON has no number of 5,000 digits; use null or a finite number."),
        (f"[{2**64}]", "The JSON value cannot be kept: a number in it has more than 64 bits."),
        (
            r'["\ud800"]',
            r"The JSON value cannot be kept: a text in it holds a lone surrogate (\ud800 to \udfff).",
        ),
        (r'{"\udc00": 1}', r"A name in the JSON value holds a lone surrogate (\ud800 to \udfff)."),
        ("[" * 400_000, "The JSON value is more than 64 levels deep; make it flatter."),
        (json.dumps(nested(MOST_DEPTH)), "The JSON value is more than 64 levels deep; make it flatter."),
        ("x" * 10_000_000, "The reply has 10,000,000 characters; a result may have 1,000,000."),
    ],
    ids=lambda given: given[:30],
)
def test_what_is_no_json_is_explained(text: str, said: str) -> None:
    assert complaint(text) == f"{said} {AGAIN}"


def test_escapes_that_make_whole_characters_are_read() -> None:
    assert read_output(r'"\ud83d\ude00 \u0000"', {"type": "string"}) == "😀 \0"


@pytest.mark.parametrize(
    "text",
    [
        "{" * (MOST_TEXT // 2) + "}" * (MOST_TEXT // 2),
        '"' * MOST_TEXT,
        "\\" * (MOST_TEXT - 2) + '"}',
        '\\"' * (MOST_TEXT // 2 - 1) + '"}',
        "```\n" * (MOST_TEXT // 4),
        "```json\n{\n```\n" * (MOST_TEXT // 16),
        "]" * MOST_TEXT,
        "{[" * (MOST_TEXT // 2),
    ],
    ids=lambda text: text[:12],
)
def test_texts_made_to_be_slow_are_refused(text: str) -> None:
    assert complaint(text).endswith(AGAIN)


def test_a_schema_made_to_be_slow_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_schema, "SECONDS", 1)
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = check_schema({"$ref": "#/$defs/d0", "$defs": {**parts, "d40": {"type": "integer"}}})
    assert "the check was ended after 1 seconds" in complaint("1", schema)


def test_a_pattern_made_to_be_slow_is_answered() -> None:
    schema = check_schema({"pattern": "^(a+)+$"})
    assert read_output(json.dumps("a" * 5000), schema) == "a" * 5000
    assert 'does not match "^(a+)+$"' in complaint(json.dumps("a" * 5000 + "!"), schema)


def test_a_schema_that_refers_to_itself_asks_for_nothing_more() -> None:
    assert read_output("[[[]]]", check_schema({"$ref": "#"})) == [[[]]]


def test_what_does_not_fit_is_an_error_for_the_model() -> None:
    assert issubclass(SchemaMismatch, ToolError)
