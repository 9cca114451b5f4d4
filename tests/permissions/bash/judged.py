"""One command judged by one policy, for tests: rules are written as `allow Bash(make:*)`."""

from pathlib import Path

from gencode.core.rules import Action, Decision, Mode, Policy, Rule, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.bash.command_units import Unit, split_units
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide

WHERE = Workspace(Path("/ws"), Path("/ws"), Path("/home/me"))
STRICTNESS = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}


def rule(text: str) -> Rule:
    """A rule from its action and its text."""
    action, _, spelled = text.partition(" ")
    return parse_rule(spelled, Action(action))


def policy(*rules: str, mode: str = "default") -> Policy:
    """A policy with these rules."""
    return Policy(Mode(mode), tuple(map(rule, rules)), "main")


def call(command: object) -> CallFacts:
    """A call of Bash in `/ws`."""
    return CallFacts(tool="Bash", input={"command": command}, effect="execute", workspace=WHERE)


def judge(command: object, *rules: str, mode: str = "default") -> Decision:
    """The whole decision about a command."""
    return decide(call(command), [policy(*rules, mode=mode)])


def actions(commands: list[str], *rules: str, mode: str = "default") -> dict[str, str]:
    """What is decided about each of several commands."""
    return {command: judge(command, *rules, mode=mode).action.value for command in commands}


def all_are(action: str, commands: list[str]) -> dict[str, str]:
    """What `actions` gives when all commands come to the same."""
    return dict.fromkeys(commands, action)


def units(command: str) -> tuple[Unit, ...]:
    """Everything in a command that is decided alone."""
    return split_units(command).units


def sources(command: str) -> list[str]:
    """The texts of everything in a command that is decided alone."""
    return [unit.part.source for unit in units(command)]
