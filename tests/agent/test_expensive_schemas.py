"""Schemas that take long before they have met a value; they are compiled elsewhere, and only once."""

import subprocess
import sys
from typing import Any

import pytest

from gencode.agent import output_schema
from gencode.agent.output_schema import check_schema
from gencode.core.errors import UserMistake


def mistake(schema: object) -> str:
    with pytest.raises(UserMistake) as caught:
        check_schema(schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("join", "each", "whole", "last"),
    [
        ("anyOf", {"unevaluatedProperties": False}, {}, {"properties": {"a": True}}),
        ("allOf", {}, {"unevaluatedProperties": False}, {"properties": {"a": True}}),
        ("oneOf", {}, {"unevaluatedItems": False}, {"prefixItems": [True]}),
    ],
    ids=["everywhere", "at the root", "items"],
)
def test_a_schema_made_to_be_slow_before_it_meets_a_value_is_too_expensive(
    monkeypatch: pytest.MonkeyPatch, join: str, each: Any, whole: Any, last: Any
) -> None:
    monkeypatch.setattr(output_schema, "SECONDS", 1)
    parts = {f"d{n}": {join: [{"$ref": f"#/$defs/d{n + 1}"}] * 2, **each} for n in range(40)}
    told = mistake({"$ref": "#/$defs/d0", "$defs": {**parts, "d40": last}, **whole})
    assert told.startswith(
        "This output schema is too expensive to check: the check was ended after 1 seconds."
    )


def test_a_schema_that_was_found_good_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "title": "found good once"}
    assert check_schema(schema) == schema
    monkeypatch.setattr(output_schema, "PATIENCE", 0.0)
    assert check_schema(schema) == schema
    assert "too expensive" in mistake({"type": "object", "title": "another one"})


def test_no_schema_is_compiled_in_this_process() -> None:
    asked = "import sys, gencode.agent.output_schema as it; it.check_schema({'type': 'object'})"
    program = f"{asked}; it.read_output('{{}}', {{}}); print('jsonschema_rs' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
