"""Settings and their layers."""

from pathlib import Path

import pytest

from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.settings import Settings, gen_home, layers, load, merged, root_policy


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A project folder and an environment with a user folder, both with settings to be written."""
    (tmp_path / "project" / ".gen").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return tmp_path / "project", {"GEN_HOME": str(tmp_path / "home")}


def write(folder: Path, text: str) -> None:
    (folder / "settings.toml").write_text(text)


def test_without_any_file_the_defaults_count(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    assert load(cwd, environ=environ) == Settings()


def test_later_layers_win_and_rules_add_up(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(
        gen_home(environ), 'model = "offline"\nmax_turns = 5\ndeny = ["Read(a)"]\n[models]\nfast = "offline"'
    )
    write(cwd / ".gen", 'deny = ["Read(b)"]\nask = ["Read(c)"]')
    environ |= {"GEN_MAX_TURNS": "7", "GEN_DENY": "Read(d); Grep(e)", "GEN_PERMISSION_MODE": "plan"}
    assert load(cwd, {"permission_mode": "dontAsk", "allow": ["LS"]}, environ) == Settings(
        model="offline",
        permission_mode="dontAsk",
        allow=("LS",),
        ask=("Read(c)",),
        deny=("Read(a)", "Read(b)", "Read(d)", "Grep(e)"),
        max_turns=7,
        models={"fast": "offline"},
    )


def test_an_untrusted_project_sets_nothing_but_deny_and_ask(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(cwd / ".gen", 'model = "scripted:evil.json"\npermission_mode = "dontAsk"\nallow = ["*"]')
    assert load(cwd, environ=environ) == Settings()


def test_the_root_policy_is_the_mode_and_every_rule_with_the_place_it_comes_from(
    places: tuple[Path, dict[str, str]],
) -> None:
    cwd, environ = places
    write(gen_home(environ), 'permission_mode = "acceptEdits"\nallow = ["LS"]')
    write(cwd / ".gen", 'ask = ["Read(b)"]\nallow = ["Bash"]')
    environ |= {"GEN_DENY": "Read(c)"}
    found = layers(cwd, {"permission_mode": "plan", "deny": ["Read(d)"]}, environ)
    assert root_policy(found, merged(found)) == Policy(
        Mode.PLAN,
        (
            Rule("LS", "*", Action.ALLOW, str(gen_home(environ) / "settings.toml")),
            Rule("Read", "b", Action.ASK, str(cwd / ".gen" / "settings.toml")),
            Rule("Read", "c", Action.DENY, "GEN_DENY"),
            Rule("Read", "d", Action.DENY, "the flag --deny"),
        ),
        "session",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modle = 'offline'", "no setting 'modle'. Did you mean model"),
        ("max_turns = 'many'", "does not fit"),
        ("permission_mode = 'bold'", "no permission mode 'bold'"),
        ("deny = 'Read'", "must be a list of rules"),
        ("deny = ['Re ad(x)']", "is not a rule"),
        ("model = ", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_users_file_is_a_plain_sentence(
    places: tuple[Path, dict[str, str]], text: str, says: str
) -> None:
    cwd, environ = places
    write(gen_home(environ), text)
    with pytest.raises(UserMistake, match=says):
        load(cwd, environ=environ)


def test_a_mistake_in_a_projects_file_is_told_with_its_path(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(cwd / ".gen", "[permissions]\ndeny = ['Read(*.py)']")
    with pytest.raises(UserMistake, match=r"\.gen/settings\.toml: There is no setting 'permissions'"):
        load(cwd, environ=environ)


def test_rules_of_the_folders_above_count_inside_a_repository(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    below = cwd / "deep" / "deeper"
    below.mkdir(parents=True)
    write(cwd / ".gen", 'deny = ["Read(*.py)", "Read(secret/**)", "Grep(/abs/x)", "Bash(cat a/b)"]')
    assert load(below, environ=environ) == Settings()
    (cwd / ".git").mkdir()
    assert load(below, environ=environ).deny == (
        "Read(*.py)",
        f"Read({cwd.as_posix()}/secret/**)",
        "Grep(/abs/x)",
        "Bash(cat a/b)",
    )


def test_the_users_own_folder_is_not_taken_for_a_project(tmp_path: Path) -> None:
    (tmp_path / ".gen").mkdir()
    (tmp_path / ".git").mkdir()
    write(tmp_path / ".gen", 'model = "offline"\ndeny = ["Read(a)"]')
    (tmp_path / "sub").mkdir()
    environ = {"GEN_HOME": str(tmp_path / ".gen")}
    assert load(tmp_path / "sub", environ=environ) == Settings(model="offline", deny=("Read(a)",))
