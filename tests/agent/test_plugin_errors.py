"""What fails that a program brought along is told as its failure, and without what may be a key."""

import pytest

from gencode.agent.plugin_calls import SHOWN, PluginErrors, error_text, plugin_failure
from gencode.core.errors import ProviderError


def raised(error: Exception) -> Exception:
    """An exception after it was raised by somebody else's provider."""
    with pytest.raises(type(error)) as caught, PluginErrors("the provider Mine"):
        raise error
    return caught.value


def test_what_is_raised_inside_is_told_as_the_failure_of_whoever_was_at_work() -> None:
    assert (
        plugin_failure(raised(ValueError("no such voice")))
        == "the provider Mine failed: ValueError: no such voice"
    )
    assert plugin_failure(raised(KeyError("choices"))) == "the provider Mine failed: KeyError: 'choices'"
    assert plugin_failure(raised(RuntimeError())) == "the provider Mine failed: RuntimeError"


def test_the_innermost_one_is_to_blame_and_is_found_in_a_group() -> None:
    with pytest.raises(ValueError) as caught, PluginErrors("the asker Theirs"):
        raise raised(ValueError("mine"))
    group = ExceptionGroup("several", [OSError("ours"), ExceptionGroup("more", [caught.value])])
    assert plugin_failure(group) == "the provider Mine failed: ValueError: mine"


def test_a_fault_of_ours_and_an_error_on_purpose_blame_nobody() -> None:
    assert plugin_failure(ValueError("ours")) == ""
    assert plugin_failure(raised(ProviderError("said on purpose"))) == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("401 for key mine-0123456789abcdef", "401 for key …"),
        (
            "GET https://u:pw@example.org/v1?key=abc&x=1 refused",
            "GET https://…@example.org/v1?… refused",
        ),
        ("Authorization: Bearer abc.def", "Authorization: … …"),
        ("{'api_key': 'short', 'model': 'm'}", "{'api_key': '…', 'model': 'm'}"),
        ("token=hush; retry", "token=…; retry"),
        ("two\nlines\tand   spaces", "two lines and spaces"),
        ("expected 3 parts, got internationalization", "expected 3 parts, got internationalization"),
    ],
)
def test_what_may_be_a_key_is_left_out(text: str, told: str) -> None:
    assert error_text(ValueError(text)) == f"ValueError: {told}"


def test_long_words_are_cut() -> None:
    assert error_text(ValueError("so " * 10_000)) == f"ValueError: {('so ' * SHOWN)[:SHOWN]}…"
