"""The first start without a model: a choice that is kept, can be skipped, and is not offered to programs."""

import tomllib
from pathlib import Path
from typing import Any

from gencode.settings import gen_home
from tests.interfaces.cli.running import gen, in_terminal


def started(folder: Path, typed: bytes) -> dict[str, Any] | None:
    """The settings after a start on a terminal at which this was typed."""
    ended = in_terminal("--plain", cwd=folder, typed=(b"Enter: ", typed + b"/quit\n"))
    assert ended.code == 0, ended.out
    settings = gen_home() / "settings.toml"
    return tomllib.loads(settings.read_text()) if settings.exists() else None


def test_a_first_start_offers_a_model_and_keeps_the_choice(tmp_path: Path) -> None:
    assert gen("--plain", piped="/quit\n", cwd=tmp_path).code == 0
    assert not (gen_home() / "settings.toml").exists()
    assert started(tmp_path, b"2\nvllm/qwen\n") == {"model": "vllm/qwen"}
    (gen_home() / "settings.toml").unlink()
    assert started(tmp_path, b"3\n") == {"model": "offline"}
    (gen_home() / "settings.toml").unlink()
    assert started(tmp_path, b"\n") == {}
    (gen_home() / "settings.toml").unlink()
    assert started(tmp_path, b"4\n3\n") == {"model": "offline"}


def test_who_has_chosen_or_named_a_model_is_not_asked(tmp_path: Path) -> None:
    words = ("--plain", "--model", "offline")
    assert "Enter: " not in in_terminal(*words, cwd=tmp_path, typed=(b"\n", b"/quit\n")).out
    gen_home().mkdir(parents=True, exist_ok=True)
    (gen_home() / "settings.toml").write_text("max_agents = 2\n")
    assert "Enter: " not in in_terminal("--plain", cwd=tmp_path, typed=(b"\n", b"/quit\n")).out
