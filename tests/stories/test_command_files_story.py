"""Slash commands from files: of GenCode and of other products, in every interface, and never before trust."""

from pathlib import Path

import pytest
from tests.interfaces.cli.running import gen, script

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.messages import NoticeKind, UserMessage
from gencode.core.task import transcript_of
from gencode.interfaces.acp.editor_commands import available_commands
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.input_completion import CompletionSources, completions
from gencode.interfaces.chat.slash_commands import (
    Page,
    from_files,
    is_command,
    parse_command,
    run_slash_command,
)
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home
from gencode.testing import says, scripted

REVIEW = """---
description: Reviews a file
argument-hint: "[file] [depth]"
allowed-tools: Bash(git push:*)
model: haiku
---
Review $1 thoroughly ($2). All: $ARGUMENTS. Price: $$5, $HOME. See @notes.txt.
Head: !`head -1 "$1"`
Bad: !`touch made.txt`
"""
COMMIT = '''description = "Writes a commit message"
prompt = """Describe {{args}}.
!{wc -l {{args}}}
@{notes.txt}"""
'''


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def trusted(folder: Path) -> None:
    trust(standing(folder, gen_home()), gen_home())


async def said(gen: GenCode, task: str, sender: str = "user") -> list[str]:
    """What the user said, or what was attached to it."""
    messages = transcript_of(await gen.history.events(task))
    users = [each for each in messages if isinstance(each, UserMessage) and each.sender == sender]
    kind = NoticeKind.FILES if sender == "system" else None
    return [each.text for each in users if (each.notice.kind if each.notice else None) is kind]


async def test_a_command_of_a_trusted_folder_is_sent_with_files_and_judged_output(tmp_path: Path) -> None:
    write(tmp_path, ".claude/commands/review.md", REVIEW)
    write(tmp_path, "a b.txt", "first\nsecond\n")
    write(tmp_path, "notes.txt", "remember\n")
    trusted(tmp_path)
    async with scripted(tmp_path, main=[says("ok")]) as gen_:
        outcome = await gen_.ask("/review 'a b.txt' deep").outcome()
        (sent,) = await said(gen_, outcome.agent_id)
        (notes,) = await said(gen_, outcome.agent_id, "system")
    assert sent == (
        "Review a b.txt thoroughly (deep). All: 'a b.txt' deep. Price: $5, $HOME. See @notes.txt.\n"
        "Head: `head -1 'a b.txt'` (its output is below)\n"
        "Bad: `touch made.txt` (its output is below)"
    )
    assert "[The output of `head -1 'a b.txt'`]\n> first" in notes and "1\tremember" in notes
    assert "[This command failed or was not run: `touch made.txt`]\n> Refused: " in notes
    assert not (tmp_path / "made.txt").exists()


async def test_arguments_never_become_shell_syntax(tmp_path: Path) -> None:
    write(gen_home(), "commands/look.md", "!`cat $ARGUMENTS`")
    write(gen_home(), "commands/git/commit.toml", COMMIT)
    settings = {"permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, main=[says("1"), says("2")]) as gen_:
        one = await gen_.ask("/look x; touch made.txt").outcome()
        two = await gen_.ask('/git:commit "$(touch made.txt)"').outcome()
        texts = [*await said(gen_, one.agent_id), *await said(gen_, two.agent_id)]
    assert texts[0] == "`cat 'x;' touch made.txt` (its output is below)"
    assert "`wc -l '$(touch made.txt)'` (its output is below)\n@\"notes.txt\"" in texts[1]
    assert not (tmp_path / "made.txt").exists()


async def test_completion_help_editors_and_plain_lines_know_the_commands(tmp_path: Path) -> None:
    write(tmp_path, ".opencode/commands/tidy.md", "Tidy up.")
    write(gen_home(), "commands/help.md", "never reached")
    write(gen_home(), "commands/tidy.md", "Mine is nearer only within one kind of folder.")
    trusted(tmp_path)
    async with scripted(tmp_path, main=[says("ok"), says("ok")]) as gen_:
        chat = ChatSession(gen_)
        files = from_files(gen_.commands)
        offered = completions("/ti", (), CompletionSources(commands=files))
        page = await run_slash_command(chat, parse_command("/help"), "")
        listed = {each.name for each in available_commands(gen_.commands).available_commands}
        kinds = [is_command(text, gen_.commands) for text in ("/tidy now", "/help", "/nothing", "/etc/x y")]
        outcome = await gen_.ask("/tidy now\nplease").outcome()
        (sent,) = await said(gen_, outcome.agent_id)
    assert [each.name for each in files] == ["tidy"] and [each.text for each in offered] == ["/tidy "]
    assert isinstance(page, Page) and "/tidy" in page.text and "tidy" in listed
    assert kinds == [False, True, True, False]
    assert sent == "Mine is nearer only within one kind of folder.\n\nnow\nplease"


async def test_an_untrusted_folder_and_a_broken_file_are_named_and_nothing_is_sent(tmp_path: Path) -> None:
    write(tmp_path, ".gen/commands/evil.md", "!`touch made.txt`")
    write(gen_home(), "commands/broken.toml", "prompt = 3")
    async with scripted(tmp_path, settings={"permission_mode": "dontAsk"}, main=[says("ok")]) as gen_:
        for text, why in (("/evil", "evil"), ("/broken", "broken.toml")):
            with pytest.raises(UserMistake, match=why):
                await gen_.start_turn(text)
        assert from_files(gen_.commands) == []
    assert not (tmp_path / "made.txt").exists()


def test_gen_p_expands_a_command_and_trust_shows_it(tmp_path: Path) -> None:
    write(tmp_path, ".codex/prompts/explain.md", "Explain $TOPIC for $1.")
    shown = gen("trust", "--show", cwd=tmp_path)
    assert ".codex/prompts/explain.md" in shown.out
    assert gen("trust", "--yes", cwd=tmp_path).code == 0
    model = script(tmp_path, main=[{"text": "done"}])
    words = ("/explain TOPIC=leases", "--model", model, "--output-format", "stream-json")
    asked = gen("-p", *words, cwd=tmp_path)
    assert asked.code == 0 and "Explain leases for TOPIC=leases." in asked.out
