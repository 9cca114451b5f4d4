import pytest

from gencode.permissions.secrets import (
    deceptive_character,
    folded,
    holds_own_settings,
    is_protected,
    is_secret,
)

SECRETS = [
    "/home/me/.ssh/config",
    "/ws/.AWS/x",
    "/home/me/.config/gcloud/token",
    "/home/me/.config/gh/hosts.yml",
    "/ws/.env",
    "/ws/.ENV.local",
    "/ws/.env. ",
    "/ws/．env",
    "/ws/.envrc",
    "/ws/id_ed25519",
    "/ws/server.PEM",
    "/ws/a.key",
    "/etc/shadow",
    "/private/etc/shadow",
    "/etc/sudoers.d/me",
    "/proc/1/environ",
    "/proc/self/mem",
]
PLAIN = [
    "/",
    "/ws/.env.example",
    "/ws/.Env.Dist",
    "/ws/.config/nvim/gh",
    "/ws/env",
    "/ws/.environment",
    "/ws/key",
    "/ws/etc/shadow",
    "/etc/hosts",
    "/ws/id_rsa.pub",
]


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_is_known_by_its_name(path: str) -> None:
    assert is_secret(folded(path))


@pytest.mark.parametrize("path", PLAIN)
def test_an_ordinary_name_is_no_secret(path: str) -> None:
    assert not is_secret(folded(path))


@pytest.mark.parametrize(
    "path",
    [
        "/ws/.git/config",
        "/ws/GIT~1/x",
        "/ws/.vscode/a",
        "/ws/.Husky/x",
        "/ws/.mcp.json",
        "/home/me/.BASHRC",
        "/etc/x",
    ],
)
def test_a_protected_place_is_known_by_its_name(path: str) -> None:
    assert is_protected(folded(path))


@pytest.mark.parametrize(
    "path", ["/", "/ws/git", "/ws/.gitignore", "/ws/.github/x", "/dev/null", "/ws/dev/x"]
)
def test_an_ordinary_place_is_not_protected(path: str) -> None:
    assert not is_protected(folded(path))


def test_relative_names_are_not_taken_for_the_system() -> None:
    assert (
        is_secret(folded("etc/shadow"), absolute=False),
        is_protected(folded("etc/x"), absolute=False),
    ) == (
        False,
        False,
    )


@pytest.mark.parametrize("path", ["/ws/.git", "/ws/.Gen/x", "/ws/git~2/x", "/ws/.git. /x", "/ws/.ＧＩＴ/x"])
def test_own_settings_are_known_however_they_are_spelled(path: str) -> None:
    assert holds_own_settings(folded(path))


DECEPTIVE = [
    "\x00",
    "\x1b",
    "\r",
    "\n",
    "\t",
    "\u200d",
    "\u202e",
    "\ufeff",
    "\u00ad",
    "\u2028",
    "\u00a0",
    "\ue000",
    "\U000e0041",
    "\u0378",
]


@pytest.mark.parametrize("character", DECEPTIVE)
def test_a_deceptive_character_is_found(character: str) -> None:
    assert deceptive_character(f"a {character}b") == character


@pytest.mark.parametrize("text", ["", "a b", "grün", "日本", "🙂", "bytes \udcff"])
def test_honest_text_is_clean(text: str) -> None:
    assert deceptive_character(text) == ""


def test_tab_and_newline_can_be_allowed() -> None:
    assert deceptive_character("a\tb\n", allowed="\t\n") == ""
