"""Of 240 harmless commands of every day, collected before any was allowed for it, few need approval."""

from pathlib import Path

from tests.permissions.bash.judged import judge

DAILY = Path(__file__).parents[3] / "bench" / "daily_commands.txt"
MOST_ASKED = 24


def test_at_most_a_tenth_of_the_daily_commands_needs_approval() -> None:
    commands = DAILY.read_text("utf-8").splitlines()
    asked = [command for command in commands if judge(command).action != "allow"]
    assert len(commands) == 240
    assert len(asked) <= MOST_ASKED, asked
