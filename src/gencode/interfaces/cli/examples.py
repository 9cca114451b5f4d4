"""Examples for the help of every command: what people type first."""

import argparse
from typing import cast

EXAMPLES: dict[str, tuple[str, ...]] = {
    "task run": (
        'gen task run Explore "Where is the configuration read?"',
        'gen task run Plan "Plan the migration" --max-turns 20 --json',
        'gen task run general-purpose "Fix the typo in README.md" --permission-mode acceptEdits',
    ),
    "task list": ("gen task list", "gen task list --all --tree"),
    "task show": ("gen task show 9f3a", "gen task show 9f3a --json"),
    "task output": ("gen task output 9f3a", "gen task output 9f3a --no-block --page 2"),
    "task stop": ("gen task stop 9f3a", "gen task stop 9f3a --tree --keep"),
    "task interrupt": ('gen task interrupt 9f3a --message "Leave the tests out"',),
    "task budget": ("gen task budget 9f3a", "gen task budget 9f3a tokens 60000", "gen task budget 9f3a none"),
    "task send": ('gen task send 9f3a "Look at the tests as well"',),
    "task resume": ('gen task resume 9f3a "And where is it tested?"',),
    "task fork": ('gen task fork 9f3a --at 12 "Look into the other module instead"',),
    "task questions": ("gen task questions", "gen task questions --all --json"),
    "task answer": ("gen task answer 3 yes", 'gen task answer 3 no --why "Not on this machine"'),
    "task merge": ("gen task merge 9f3a --preview", "gen task merge 9f3a"),
    "task background": ("gen task background 9f3a",),
    "task events": ("gen task events 9f3a --follow", "gen task events 9f3a --after 12 --json"),
    "task replay": ("gen task replay 9f3a", "gen task replay 9f3a --against 1c2e"),
    "task export": ("gen task export 9f3a task.jsonl", "gen task export 9f3a - | gzip > task.jsonl.gz"),
    "task import": ("gen task import task.jsonl",),
    "sessions list": ("gen sessions list", "gen sessions list --all --json"),
    "sessions show": ("gen sessions show 9f3a",),
    "sessions delete": ("gen sessions delete 9f3a --yes",),
    "sessions prune": ("gen sessions prune --older-than 90 --yes",),
    "cron list": ("gen cron list", "gen cron list --all --json"),
    "cron add": ('gen cron add "0 9 * * 1-5" "Which tests failed last night?" --to file:mornings',),
    "cron remove": ("gen cron remove 9f3a",),
    "cron run": ("gen cron run", "gen cron run --permission-mode plan"),
    "agents list": ("gen agents list", "gen agents list --json"),
    "agents show": ("gen agents show Explore",),
    "agents lint": ("gen agents lint", "gen agents lint .claude/agents --json"),
    "agents new": (
        'gen agents new tester --description "Runs the tests and says what broke." --tools Bash,Read',
    ),
    "skills": ("gen skills list",),
    "skills list": ("gen skills list", "gen skills list --json"),
    "permissions explain": (
        'gen permissions explain --tool Bash --input "git push"',
        "gen permissions explain --tool Write --input notes.md --agent Explore --json",
    ),
    "permissions check": ("gen permissions check cases.jsonl", "gen permissions check cases.jsonl --json"),
    "trust": ("gen trust --show", "gen trust --yes", "gen trust --list", "gen trust --server git --yes"),
    "models": ("gen models", "gen models --json"),
    "tools": ("gen tools", "gen tools --json"),
    "serve": ("gen serve", "gen serve --port 8080 --share view"),
    "acp": ("gen acp", "gen acp --permission-mode plan"),
    "mcp": ("gen mcp",),
    "doctor": ("gen doctor", "gen doctor --json"),
    "worker": ("gen worker --concurrency 4", "gen worker --agents Explore,Plan --drain-seconds 120"),
    "migrate": ("gen migrate",),
    "demo": ("gen demo",),
    "completions": (
        "source <(gen completions bash)",
        "gen completions zsh",
        "gen completions fish > ~/.config/fish/completions/gen.fish",
    ),
}


def show_examples(parser: argparse.ArgumentParser, command: str = "") -> None:
    """Give the help of every command below one its examples, where it has none of its own."""
    for action in cast("list[argparse.Action]", vars(parser)["_actions"]):
        choices = cast("object", action.choices)
        for name, below in cast("dict[str, object]", choices if isinstance(choices, dict) else {}).items():
            if isinstance(below, argparse.ArgumentParser):
                _show(below, f"{command} {name}".strip())


def _show(parser: argparse.ArgumentParser, command: str) -> None:
    if not parser.epilog and command in EXAMPLES:
        lines = "\n".join(f"  {line}" for line in EXAMPLES[command])
        parser.epilog = f"examples:\n{lines}"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    show_examples(parser, command)
