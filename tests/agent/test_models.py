"""Names of models."""

import pytest

from gencode.agent.models import Model, ModelRegistry
from gencode.agent.ports import Provider
from gencode.core.errors import UnknownName, UserMistake
from gencode.providers.scripted import ScriptedProvider


def provider(_: str) -> Provider:
    return ScriptedProvider.of({"*": [{"text": "hello"}]})


def registry(**tiers: str) -> ModelRegistry:
    return ModelRegistry({"offline": provider, "scripted": provider, "acme": provider}, tiers)


def named(model: Model) -> tuple[str, str, bool]:
    return model.asked, model.name, model.binding


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("offline", ("offline", "offline-search", True)),
        ("scripted:play.json", ("scripted:play.json", "scripted:play.json", True)),
        ("acme/large", ("acme/large", "acme/large", False)),
        ("fast", ("fast", "acme/small", False)),
        ("haiku", ("haiku", "acme/small", False)),
        ("Opus", ("Opus", "offline-search", True)),
    ],
)
def test_a_name_resolves(asked: str, expected: tuple[str, str, bool]) -> None:
    assert named(registry(fast="acme/small", powerful="offline").resolve(asked)) == expected


@pytest.mark.parametrize("asked", ["offlin", "acme", "acme/", "other/large", "scripted", "offline/x"])
def test_an_unknown_name_is_an_error_with_names(asked: str) -> None:
    with pytest.raises(UnknownName, match="There are|Did you mean"):
        registry().resolve(asked)


def test_the_maker_of_a_well_known_model_is_named() -> None:
    models = ModelRegistry({"openai": provider, "anthropic": provider}, {})
    for asked, meant in (
        ("gpt-4", "openai/gpt-4"),
        ("o3", "openai/o3"),
        ("Claude-Opus-5", "anthropic/claude-opus-5"),
    ):
        with pytest.raises(UnknownName, match=f"Did you mean {meant}"):
            models.resolve(asked)


def test_a_tier_without_a_model_says_where_to_set_one() -> None:
    with pytest.raises(UserMistake, match=r"settings.toml, \[models\] balanced"):
        registry().resolve("sonnet")


def test_a_child_inherits_and_may_ask_for_another() -> None:
    models = registry()
    parent = models.resolve("acme/large")
    assert named(models.resolve("inherit", parent)) == ("inherit", "acme/large", False)
    assert named(models.resolve("", parent)) == ("inherit", "acme/large", False)
    assert named(models.resolve("acme/small", parent)) == ("acme/small", "acme/small", False)


def test_offline_and_scripted_bind_everything_below_them() -> None:
    models = registry()
    for asked in ("offline", "scripted:play.json"):
        parent = models.resolve(asked)
        assert models.resolve("acme/large", parent).provider is parent.provider


def test_an_unknown_name_in_an_agent_file_inherits_with_a_warning() -> None:
    models = registry()
    parent = models.resolve("acme/large")
    child = models.resolve("gpt-imaginary", parent, from_file=True)
    assert named(child) == ("gpt-imaginary", "acme/large", False)
    assert "gpt-imaginary" in child.warnings[0]
    with pytest.raises(UnknownName):
        models.resolve("gpt-imaginary", parent)


def test_a_tier_without_a_model_falls_back_to_the_parents_model_with_a_note() -> None:
    models = registry()
    child = models.resolve("opus", models.resolve("acme/large"))
    note = "no model is set for the tier 'opus', so it used its parent's model acme/large"
    assert (named(child), child.warnings) == (("opus", "acme/large", False), (note,))
