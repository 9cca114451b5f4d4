"""What a rule denies reading is not seen by commands that only read, however they come to it."""

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.messages import ToolMessage
from gencode.core.place import FolderCopy
from gencode.core.rules import Action, Mode, Policy, parse_rule
from gencode.core.spec import Workspace
from gencode.core.task import transcript_of
from gencode.permissions.hidden_paths import hidden_paths
from gencode.permissions.paths import places_of
from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.sandbox.profile import hide_denied, workspace_profile
from gencode.sandbox.shells import CommandRequest, Shells
from gencode.testing import call, says, scripted


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A repository `ws` with secrets in it and beside it, and links to them."""
    for name in ("ws/secret", "ws/src", "home/own", "near"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("ws/secret/key.txt", "ws/.token", "near/key.txt"):
        (tmp_path / name).write_text("topsecret\n")
    (tmp_path / "ws/src/a.py").write_text("plain\n")
    (tmp_path / "ws/rel").symlink_to("secret")
    (tmp_path / "ws/inlink").symlink_to(tmp_path / "near")
    (tmp_path / "way").symlink_to("ws")
    return tmp_path


def closed(base: Path, *rules: str, copied: FolderCopy | None = None) -> list[str]:
    """What deny rules close, as names in `base`."""
    where = Workspace(base / "ws", base / "ws", base / "home", copied)
    parsed = tuple(parse_rule(rule.replace("{B}", str(base)), Action.DENY) for rule in rules)
    found = hidden_paths([Policy(Mode.DEFAULT, parsed)], places_of(where))
    return [str(Path(each).relative_to(base)) for each in found]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("Read(secret/**)", ["ws/secret"]),
        ("Read(secret/)", ["ws/secret"]),
        ("Read({B}/ws/secret/**)", ["ws/secret"]),
        ("Read({B}/way/secret/**)", ["ws/secret"]),
        ("Read(rel/**)", ["ws/secret"]),
        ("Read(.token)", ["ws/.token"]),
        ("Read(secret/key.txt)", ["ws/secret/key.txt"]),
        ("Read(~/own/**)", ["home/own"]),
        ("*(secret/**)", ["ws/secret"]),
        ("Read(secret)", []),
        ("Read(secret/*.txt)", []),
        ("Read(s*/**)", []),
        ("Read(nothing/**)", []),
        ("Read(**)", []),
        ("Read", []),
        ("Write(secret/**)", []),
        ("Bash(secret/**)", []),
    ],
)
def test_a_rule_closes_what_it_names_by_its_whole_name(base: Path, rule: str, found: list[str]) -> None:
    assert closed(base, rule) == found


def test_a_rule_about_the_senders_folder_closes_what_is_in_the_copy(base: Path) -> None:
    copied = FolderCopy(str(base / "ws"), "/of/the/sender", "/of/the")
    rules = ("Read(/of/the/sender/secret/**)", "Read(~/sender/.token)")
    assert closed(base, *rules, copied=copied) == ["ws/.token", "ws/secret"]


def test_what_a_command_needs_is_never_hidden(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(base / "home"))
    monkeypatch.setenv("PATH", f"{base}/near/bin")
    plan = workspace_profile(base / "ws", base / "temp", base / "gen", environ={})
    names = [*("ws", "home", "near", "temp", "gen/x", "ws/secret", "home/own", "ws/secret/key.txt"), ""]
    places = ["/", "/etc", "/usr/lib", "/tmp", *(str(base / name) for name in names)]
    assert hide_denied(plan, places, base / "ws").veiled == (base / "ws/secret", base / "home/own")


@pytest.fixture
def hiding() -> None:
    if not best_sandbox().hides:
        pytest.skip("no wall of this machine hides anything")


@pytest.mark.usefixtures("hiding")
async def test_a_command_that_only_reads_does_not_come_upon_what_is_denied(base: Path) -> None:
    ws = base / "ws"
    tries = [
        "grep -r topsecret . ; cat src/a.py",
        f"grep -r topsecret {ws}; cat {ws}/inlink/key.txt rel/key.txt .token",
        f"sh -c 'ls secret {base}/near'",
    ]
    said = [says("", *(call("Bash", command=text) for text in tries)), says("I could not.")]
    rules = {"deny": ["Read(secret/**)", f"Read({base}/near/**)", f"Read({ws}/.token)"]}
    async with scripted(ws, settings={**rules, "sandbox": "required"}, general_purpose=said) as gen:
        found = await gen.task("general-purpose", "read it")
        events = await gen.history.events(found.agent_id)
    (told,) = [message for message in transcript_of(events) if isinstance(message, ToolMessage)]
    first, second, third = [result.text.splitlines() for result in told.results]
    note = f"Hidden from the command, because reading is denied: {base}/near, .token, secret."
    assert (first[-1], third) == ("plain", [f"{base}/near:", "", "secret:"])
    assert [result.note for result in told.results] == [note, "", note]
    assert "topsecret" not in "".join((*first, *second))


@pytest.fixture
def staged(base: Path) -> Path:
    """The workspace as a repository in which everything is staged."""
    subprocess.run(["git", "init", "-q", base / "ws"], check=True)
    subprocess.run(["git", "-C", base / "ws", "add", "."], check=True)
    return base / "ws"


@pytest.mark.needs("git")
@pytest.mark.usefixtures("hiding")
async def test_git_and_what_changes_something_see_everything(base: Path, staged: Path) -> None:
    ws = staged
    where = Workspace(ws, ws, base / "home")
    order = CommandRequest("", where, "t", 60.0, closed=(str(ws / "secret"),))
    shells = Shells(base / "gen", "required")
    try:
        texts = ("git diff; git status --short secret", "touch x; cat secret/key.txt", "cat secret/key.txt")
        ended = [await shells.run(replace(order, text=text)) for text in texts]
    finally:
        await shells.close()
    assert [each.veiled for each in ended] == [(), (), (ws / "secret",)]
    assert [each.ended.output.text() for each in ended[:2]] == ["A  secret/key.txt\n", "topsecret\n"]
    assert (ended[2].ended.exit_code, "topsecret" in ended[2].ended.output.text()) == (1, False)
