"""Settings and their layers."""

import os
from pathlib import Path

import pytest

from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Policy, Rule, RuleOrigin, RuleSource, written_in
from gencode.permissions.project_files import LARGEST_SETTINGS
from gencode.permissions.trust import standing, trust
from gencode.settings import Settings, gen_home, layers, load, merged, root_policy, waiting


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
            Rule("LS", "*", Action.ALLOW, written_in(str(gen_home(environ) / "settings.toml"))),
            Rule("Read", "b", Action.ASK, written_in(str(cwd / ".gen" / "settings.toml"))),
            Rule("Read", "c", Action.DENY, RuleOrigin(RuleSource.ENVIRONMENT, "GEN_DENY")),
            Rule("Read", "d", Action.DENY, RuleOrigin(RuleSource.FLAG, "--deny")),
        ),
        "session",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modle = 'offline'", r"/settings\.toml: There is no setting 'modle'\. Did you mean model"),
        ("max_turns = 'many'", "does not fit"),
        ("[prices.'vllm/mine']\nreply = 0", r"does not fit: Expected `int` >= 1"),
        ("max_turns = 0", "max_turns is 0; name a whole number from 1 to 9,007,199,254,740,992, or leave it"),
        ("max_turns = 9007199254740993", "max_turns is 9007199254740993; name a whole number from 1 to"),
        ("max_seconds = 1e300", r"max_seconds is 1e\+300; name a number from 0\.000000001 to 1,000,000,000"),
        ("max_seconds = 1e-30", "max_seconds is 1e-30; name a number from"),
        ("max_usd = inf", "max_usd is inf; name a number from"),
        ("task_seconds = 2e9", r"task_seconds is 2000000000\.0; name a number from"),
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


def trusted(folder: Path, environ: dict[str, str]) -> None:
    trust(standing(folder, gen_home(environ)), gen_home(environ))


def test_a_trusted_project_counts_between_the_user_and_the_environment(
    places: tuple[Path, dict[str, str]],
) -> None:
    cwd, environ = places
    write(gen_home(environ), 'model = "offline"\nmax_turns = 5\nallow = ["LS"]')
    write(
        cwd / ".gen", 'model = "fast"\npermission_mode = "acceptEdits"\nmax_turns = 6\nallow = ["Bash(make)"]'
    )
    trusted(cwd, environ)
    environ |= {"GEN_MAX_TURNS": "7"}
    assert load(cwd, environ=environ) == Settings(
        model="fast", permission_mode="acceptEdits", max_turns=7, allow=("LS", "Bash(make)")
    )
    found = layers(cwd, environ=environ)
    assert Rule("Bash", "make", Action.ALLOW, written_in(str(cwd / ".gen" / "settings.toml"))) in (
        root_policy(found, merged(found)).rules
    )


def test_a_change_of_a_trusted_file_makes_it_narrow_again(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(cwd / ".gen", 'model = "fast"\ndeny = ["Read(a)"]')
    trusted(cwd, environ)
    write(cwd / ".gen", 'model = "fast"\ndeny = ["Read(b)"]\nallow = ["*"]')
    assert load(cwd, environ=environ) == Settings(deny=("Read(b)",))


def test_what_is_only_the_users_to_set_no_project_sets(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(
        cwd / ".gen", 'durability = "power"\nsandbox = "off"\nsandbox_network = true\nmodels = {fast = "x"}'
    )
    trusted(cwd, environ)
    assert load(cwd, environ=environ) == Settings(models={"fast": "x"})


def test_trust_in_one_folder_widens_nothing_in_the_folders_below(
    places: tuple[Path, dict[str, str]],
) -> None:
    cwd, environ = places
    (cwd / ".git").mkdir()
    (cwd / "below").mkdir()
    write(cwd / ".gen", 'allow = ["*"]\ndeny = ["Read(a/b)"]')
    trusted(cwd, environ)
    assert load(cwd / "below", environ=environ) == Settings(deny=(f"Read({cwd.as_posix()}/a/b)",))


def test_what_waits_for_trust_is_told_in_a_word(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    home = gen_home(environ)
    write(cwd / ".gen", 'deny = ["Read(a)"]\ndurability = "power"')
    assert waiting(standing(cwd, home)) == ()
    write(cwd / ".gen", 'allow = ["Read(a)"]')
    assert waiting(standing(cwd, home)) == ("settings",)
    (cwd / ".gen" / "agents").mkdir()
    (cwd / ".gen" / "agents" / "a.md").write_text("x")
    assert waiting(standing(cwd, home)) == ("settings", "agents")
    trusted(cwd, environ)
    assert waiting(standing(cwd, home)) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("deny = [" + '"LS",' * 1_001 + "]", "there are more than 1,000 rules"),
        (f"deny = ['LS({'x' * 5_000})']", r"begins with 'LS\(x+… is longer than 4,096 characters"),
        ("x" * (LARGEST_SETTINGS + 1), "is larger than 65,536 bytes"),
        ("a" + ".a" * 30_000 + " = 1", "has more than 200 dots in a line"),
        ("a = " + "[" * 50_000, "is nested too deeply"),
        ("max_turns = " + "1" * 5_000, "holds a number that is too large"),
        ("models = {a = [0x" + "f" * 5_000 + "]}", "holds a number that is too large"),
        ("k" * 5_000 + " = 1", "There is no setting 'k{80}'"),
        (f"deny = '{'y' * 5_000}'", "must be a list of rules, not 'y{79}…"),
    ],
)
def test_a_projects_file_that_is_too_much_is_a_short_sentence_at_once(
    places: tuple[Path, dict[str, str]], text: str, says: str
) -> None:
    cwd, environ = places
    write(cwd / ".gen", text)
    with pytest.raises(UserMistake, match=says) as caught:
        load(cwd, environ=environ)
    assert str(cwd / ".gen" / "settings.toml") in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_a_projects_file_that_is_a_link_or_a_pipe_is_not_read(
    places: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    cwd, environ = places
    (tmp_path / "outside.toml").write_text("deny = ['LS']")
    (cwd / ".gen" / "settings.toml").symlink_to(tmp_path / "outside.toml")
    with pytest.raises(UserMistake, match=r"cannot be used: it is a link"):
        load(cwd, environ=environ)
    (cwd / ".gen" / "settings.toml").unlink()
    os.mkfifo(cwd / ".gen" / "settings.toml")
    with pytest.raises(UserMistake, match=r"cannot be used: it is a pipe"):
        load(cwd, environ=environ)


def test_a_mistake_in_a_trusted_file_is_told_with_its_path(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    write(cwd / ".gen", "permission_mode = 'bold'")
    trusted(cwd, environ)
    with pytest.raises(UserMistake, match=r"\.gen/settings\.toml: There is no permission mode 'bold'"):
        load(cwd, environ=environ)


def test_the_users_folder_is_never_relative_to_where_we_are() -> None:
    with pytest.raises(UserMistake, match="GEN_HOME must be an absolute path, not 'here/.gen'"):
        gen_home({"GEN_HOME": "here/.gen"})
