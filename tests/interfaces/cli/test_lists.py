"""`gen agents list`, `models`, `tools`, `doctor`, `migrate`, `demo`: what is there and what is missing."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gencode.core.extras import installing
from gencode.sandbox.choose_sandbox import best_sandbox
from tests.interfaces.cli.running import gen

AGENT = """---
name: {name}
description: Looks after the garden.
tools: Read, Shovel
---
Dig.
"""


@pytest.fixture
def agents(home: Path) -> Path:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "gardener.md").write_text(AGENT.format(name="gardener"))
    (folder / "mine.md").write_text(AGENT.format(name="explore"))
    (folder / "broken.md").write_text("---\nname: [\n---\n")
    return folder


def by_source(told: Any) -> dict[str, Any]:
    return {Path(agent["source"]).name: agent for agent in told["agents"]}


def test_agents_are_listed_with_source_tools_and_problems(tmp_path: Path, agents: Path) -> None:
    told = by_source(gen("agents", "list", "--json", cwd=tmp_path).json)
    assert {name for name, agent in told.items() if agent["builtin"]} == {
        *("Bash.md", "Explore.md", "Plan.md", "Review.md", "general-purpose.md", "researcher.md")
    }
    gardener = told["gardener.md"]
    assert (gardener["name"], gardener["tools"], gardener["missing"]) == (
        "gardener",
        ["Read", "Shovel"],
        ["Shovel"],
    )
    assert told["Explore.md"]["shadowedBy"] == str(agents / "mine.md")
    assert told["broken.md"]["problem"] is not None


def test_missing_tools_shadowed_and_broken_files_are_shown(tmp_path: Path, agents: Path) -> None:
    out = gen("agents", "list", cwd=tmp_path).out
    assert "Read Shovel!" in out
    assert f"(by {agents / 'mine.md'})" in out
    assert f"broken: {agents / 'broken.md'}" in out


def test_lists_need_no_database(tmp_path: Path, home: Path) -> None:
    codes = [gen(*words, cwd=tmp_path).code for words in (("agents", "list"), ("models",), ("tools",))]
    assert codes == [0, 0, 0]
    assert not (home / ".gen").exists()


def test_models_tell_who_answers_and_why(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('[models]\nfast = "offline"\n')
    told = gen("models", "--json", cwd=tmp_path, GEN_MODEL="haiku").json
    assert (told["main"]["name"], told["main"]["model"]) == ("haiku", "offline-search")
    resolved = {line["name"]: line["model"] for line in told["models"] if "/" not in line["name"]}
    assert resolved == {
        **{"inherit": None, "fast": "offline-search", "balanced": None, "powerful": None},
        **{"haiku": "offline-search", "sonnet": None, "opus": None},
        **{"offline": "offline-search", "scripted:FILE": None},
    }


def test_without_a_model_models_say_what_gen_would_use(tmp_path: Path) -> None:
    assert gen("models", cwd=tmp_path).out.startswith(
        "gen -p would use offline-search: No model is configured"
    )


def test_a_key_in_the_environment_chooses_its_service(tmp_path: Path) -> None:
    told = gen("models", "--json", cwd=tmp_path, ANTHROPIC_API_KEY="secret")
    assert told.json["main"]["model"].startswith("anthropic/")
    assert "ANTHROPIC_API_KEY is set" in told.json["main"]["why"]
    assert "secret" not in told.out


def test_tools_are_listed_with_aliases_effect_and_source(tmp_path: Path) -> None:
    told = {tool["name"]: tool for tool in gen("tools", "--json", cwd=tmp_path).json["tools"]}
    effects = {name: (tool["effect"], tool["source"]) for name, tool in told.items()}
    reading = {"Read", "Glob", "Grep", "LS", "TaskOutput", "TodoWrite"}
    assert {name for name, effect in effects.items() if effect == ("read", "builtin")} >= reading
    assert {name for name, effect in effects.items() if effect == ("write", "builtin")} == {
        *("Write", "Edit", "delete_file", "move_file", "set_env", "http_post", "http_request"),
        *("memory_write", "memory_patch", "memory_append", "message", "cron"),
    }
    assert (effects["Task"], effects["Bash"]) == (("delegate", "builtin"), ("execute", "builtin"))
    assert [told[name]["aliases"] for name in ("Read", "Write", "Edit")] == [
        *(["read_file"], ["write_file"], ["edit_file", "MultiEdit"])
    ]
    assert "file_path" in told["Read"]["parameters"]["properties"]
    assert gen("tools", cwd=tmp_path).out.splitlines()[0].split() == [
        *("NAME", "EFFECT", "SOURCE", "ALIASES", "DESCRIPTION")
    ]


def doctor(folder: Path, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
    ended = gen("doctor", "--json", *words, cwd=folder, **env)
    return ended.code, {check["name"]: check for check in ended.json["checks"]}


def test_the_doctor_finds_a_fresh_machine_healthy_and_changes_nothing(tmp_path: Path, home: Path) -> None:
    code, checks = doctor(tmp_path)
    assert (code, {check["state"] for check in checks.values()} <= {"ok", "missing"}) == (0, True)
    assert checks["home"]["detail"].startswith(str(home / ".gen"))
    assert "offline-search" in checks["model"]["detail"] and "--model" in checks["model"]["detail"]
    assert checks["ripgrep"]["state"] == "ok"
    assert not (home / ".gen").exists()


def test_the_doctor_names_install_lines_of_missing_extras(tmp_path: Path) -> None:
    _, checks = doctor(tmp_path)
    extras = {name: check for name, check in checks.items() if name.startswith("extra ")}
    assert set(extras) == {f"extra {name}" for name in ("tui", "server", "postgres", "mcp", "acp")}
    missing = {name: check["fix"] for name, check in extras.items() if check["state"] == "missing"}
    assert missing == {name: installing(name[6:]) for name in missing}


def test_the_doctor_tells_what_the_sandbox_enforces_and_what_not(tmp_path: Path) -> None:
    _, checks = doctor(tmp_path)
    sandbox = best_sandbox()
    if sandbox.exists:
        told = [checks["sandbox"]["detail"], checks["sandbox does not enforce"]["detail"]]
        enforced = [f"{sandbox.name}.", *sandbox.enforced(), *sandbox.passed_over]
        assert told == [" ".join(enforced), " ".join(sandbox.not_enforced())]
    else:
        assert checks["sandbox"]["detail"].startswith(
            "There is none. A command that is allowed can do whatever"
        )


def test_the_doctor_checks_the_database(tmp_path: Path, home: Path) -> None:
    gen("migrate", cwd=tmp_path)
    code, checks = doctor(tmp_path)
    assert (code, checks["database"]["state"]) == (0, "ok")
    database = home / ".gen" / "gencode.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")
    code, checks = doctor(tmp_path)
    assert (code, checks["database"]["fix"]) == (1, "upgrade GenCode")
    database.write_text("no database at all " * 100)
    code, checks = doctor(tmp_path)
    assert (code, checks["database"]["state"]) == (1, "problem")


def test_the_doctor_tells_which_settings_count(tmp_path: Path, home: Path) -> None:
    (tmp_path / ".gen").mkdir()
    (tmp_path / ".gen" / "settings.toml").write_text('deny = ["Read(*.sql)"]\n')
    out = gen("doctor", cwd=tmp_path).out
    assert f"{home / '.gen' / 'settings.toml'} (not there)" in out
    assert f"{tmp_path / '.gen' / 'settings.toml'} (of the project: only its deny and ask rules count)" in out


def test_migrate_makes_the_database_once(tmp_path: Path, home: Path) -> None:
    path = str(home / ".gen" / "gencode.db")
    first, second = (gen("migrate", "--json", cwd=tmp_path).json for _ in range(2))
    assert (first["database"], first["before"], second["before"]) == (path, 0, first["after"])
    assert gen("migrate", cwd=tmp_path).out.startswith(f"The database {path} is up to date")


def test_the_demo_shows_parallel_agents_and_a_replay(tmp_path: Path, home: Path) -> None:
    told = gen("demo", "--json", cwd=tmp_path).json
    first, second = told["tasks"]
    assert (told["answer"]["status"], told["same"], first["agent"]) == ("completed", True, "Explore")
    assert first["startedAt"] < second["endedAt"] and second["startedAt"] < first["endedAt"]
    assert "shop/accounts.py:" in told["answer"]["result"] and "shop/invoices.py:" in told["answer"]["result"]
    left = [str(each.relative_to(home)) for each in home.rglob("*") if each.is_file()]
    assert left == [".gen/state/sandbox.json"]  # what this machine can hold, which is no part of the tour


def test_the_demo_ends_with_what_to_type_next(tmp_path: Path) -> None:
    out = gen("demo", cwd=tmp_path).out
    assert [line.split()[0] for line in out.splitlines()[-5:]] == ["gen"] * 5
