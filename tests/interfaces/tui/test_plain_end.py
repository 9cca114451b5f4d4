"""The end of a conversation line by line: what stops with it is named, away from the answers."""

from pathlib import Path

from tests.interfaces.cli.running import gen, script, send


def test_what_still_runs_at_the_end_is_named_on_stderr(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        main=[{"calls": send("alpha")}, {"text": "ok"}],
        Explore=[{"text": "found", "delay_ms": 60_000}],
    )
    ended = gen("--plain", "--model", model, cwd=tmp_path, piped="go\n/background\n/quit\n")
    assert ended.code == 0
    assert "Stopping " in ended.err and "Their results so far are kept." in ended.err
    assert "Still running" not in ended.out
