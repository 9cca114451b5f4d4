"""get_env and set_env: what commands see, for one agent only, and never a secret."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.toolbox import Tool
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.sandbox.shells import Shells
from gencode.sandbox.variables import LONGEST_VALUE, MOST
from gencode.tools.bash import BASH
from gencode.tools.environment_variables import GET_ENV, SET_ENV
from tests.tools.desk import Desk

Use = Any


@pytest.fixture
async def use(desk: Desk, home: Path) -> AsyncGenerator[Use, None]:
    """Calls a tool as one task or another of a session that can run commands."""
    shells = Shells(home / ".gen", "off")

    async def call(tool: Tool, task: str = "0000abcd", **given: Any) -> str:
        ctx = replace(desk.ctx, task=task, shells=lambda: shells)
        return (await tool.run(ctx, tool.parse(ToolCall("c", tool.name, given)))).text

    yield call
    await shells.close()


async def refusal(use: Use, **given: Any) -> str:
    with pytest.raises(ToolError) as error:
        await use(SET_ENV, **given)
    return str(error.value)


async def test_what_is_set_reaches_the_further_commands_of_that_agent_only(use: Use) -> None:
    assert await use(SET_ENV, key="APP_MODE", value="a b 'c'") == "APP_MODE is set for your later commands."
    assert await use(GET_ENV, name="APP_MODE") == "a b 'c'"
    assert await use(BASH, command='make=1; echo "$APP_MODE"; touch x') == "a b 'c'"
    assert await use(BASH, task="0000beef", command='make=1; echo "<$APP_MODE>"; touch x') == "<>"
    assert "APP_MODE" not in await use(GET_ENV, task="0000beef")
    assert "APP_MODE" not in os.environ


async def test_an_empty_value_takes_a_variable_away(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_MODE", "ours")
    await use(SET_ENV, name="APP_MODE", value="theirs")
    assert await use(SET_ENV, name="APP_MODE", value="") == "APP_MODE has its original value again."
    assert await use(GET_ENV, name="APP_MODE") == "ours"


async def test_a_command_that_only_reads_gets_none_but_safe_names(use: Use) -> None:
    await use(SET_ENV, name="APP_MODE", value="x")
    await use(SET_ENV, name="NO_COLOR", value="1")
    assert await use(BASH, command='echo "<$APP_MODE><$NO_COLOR>"') == "<><1>"


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "path",
        "MANPATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES",
        "GIT_DIR",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
        "ENV",
        "IFS",
        "HOME",
        "PS4",
        "NODE_OPTIONS",
        "PERL5LIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "EDITOR",
        "GIT_EDITOR",
        "VISUAL",
        "PAGER",
        "LESSOPEN",
        "BROWSER",
        "http_proxy",
        "HTTPS_PROXY",
        "MAKEFLAGS",
        "CC",
        "RUSTC_WRAPPER",
        "npm_config_script_shell",
        "PIP_INDEX",
        "UV_PYTHON",
        "SSL_CERT_FILE",
        "CURL_HOME",
        "GEN_HOME",
        "GENCODE_KEEPER",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "SSH_AUTH_SOCK",
        "DOCKER_HOST",
        "KUBECONFIG",
        "GOFLAGS",
        "CARGO_HOME",
        "R_HOME",
    ],
)
async def test_a_name_that_leads_programs_elsewhere_is_refused(use: Use, name: str) -> None:
    assert (await refusal(use, name=name, value="x")).startswith(f"{name} cannot be set: it changes what")


@pytest.mark.parametrize(
    "name", ["NODE_ENV", "RUST_LOG", "TZ", "LC_ALL", "PYTHONUNBUFFERED", "DEBUG", "PORT"]
)
async def test_a_name_that_is_safe_or_ordinary_is_taken(use: Use, name: str) -> None:
    await use(SET_ENV, name=name, value="1")
    assert await use(GET_ENV, name=name) == "1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "", "value": "x"}, "'' is not a variable name"),
        ({"name": "A-B", "value": "x"}, "'A-B' is not a variable name"),
        ({"name": "A=B", "value": "x"}, "'A=B' is not a variable name"),
        ({"name": "1A", "value": "x"}, "'1A' is not a variable name"),
        ({"name": "A" * 101, "value": "x"}, "is not a variable name"),
        ({"name": "A", "value": "a\nb"}, "The value of A must be one line of at most 4,096 characters."),
        ({"name": "A", "value": "x" * (LONGEST_VALUE + 1)}, "The value of A must be one line"),
        ({"name": "MY_API_KEY", "value": "x"}, "MY_API_KEY looks like a key or password"),
        ({"name": "A", "value": "ghp_" + "a" * 30}, "A looks like a key or password"),
        ({"name": "A", "value": "postgres://me:pw@db.example.com/x"}, "A looks like a key or password"),
        ({"name": "A"}, "missing required field `value`"),
    ],
)
async def test_what_cannot_be_set_is_said_in_a_sentence(use: Use, given: dict[str, Any], said: str) -> None:
    assert said in await refusal(use, **given)


async def test_there_is_room_for_so_many_variables_and_no_more(use: Use) -> None:
    for number in range(MOST):
        await use(SET_ENV, name=f"V{number}", value="x")
    assert await refusal(use, name="ONE_MORE", value="x") == (
        f"{MOST} variables are already set; remove one by setting it to an empty value."
    )
    await use(SET_ENV, name="V0", value="other")
    assert await use(GET_ENV, name="V0") == "other"


async def test_secrets_are_never_shown_neither_by_name_nor_in_a_list(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {
        "MY_TOKEN": "plain words here",
        "WHATEVER": "sk-abcdefghijklmnopqrstuvwx",
        "COPY": "has plain words here inside",
        "DATABASE_URL": "postgres://me:hunter2@db.example.com/x",
        "BASH_ENV": "/tmp/x",
    }
    for name, value in {**hidden, "FINE": "yes"}.items():
        monkeypatch.setenv(name, value)
    names = (await use(GET_ENV)).split("\n")
    assert "FINE" in names and not set(hidden) & set(names)
    for name in hidden:
        assert await use(GET_ENV, name=name) == (
            f"{name!r} is not set, or not shown because it could be a secret."
        )


async def test_a_long_value_is_cut_and_where_nothing_can_be_run_ours_is_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONG_ONE", "x" * 10_000)
    assert await desk.use(GET_ENV, name="LONG_ONE") == "x" * 4_096 + "\n[… cut]"
    with pytest.raises(ToolError, match="Commands cannot be run here"):
        await desk.use(SET_ENV, name="A", value="b")
