"""Slash commands from files: the registry, and the message that a typed command stands for.

A command is a Markdown file (Claude Code, opencode, Codex) or a TOML file (Gemini CLI) whose text is sent in
place of `/name arguments`. The nearest folder comes first: of each kind the project's before the user's.
Those of a project need its trust, as its skills do. A file grants no permission: the shell commands in it are
run by the agent that gets the message, and its gate decides about each.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from gencode.agents.agent_file import decoded, parse
from gencode.agents.frontmatter import read_front_matter
from gencode.agents.skills import read_bounded, users_folder, users_home
from gencode.core.errors import UserMistake
from gencode.core.messages import UserMessage
from gencode.core.text import inert, one_line
from gencode.permissions.agent_folders import COMMAND_FOLDERS, USER_COMMAND_FOLDERS
from gencode.permissions.project_files import COMMAND_ENDINGS
from gencode.permissions.trust import FolderTrust

MOST_FILES = 1_000
MOST_SHELL = 20
LONGEST_WORD = 200
LONGEST_MESSAGE = 400_000
_NAME = re.compile(r"[\w.+-]+(?::[\w.+-]+)*")
_TYPED = re.compile(rf"/({_NAME.pattern})(?:\s+|\Z)")
_SHELL_MD = re.compile(r"!`([^`\n]{1,4000})`")
_ARGUMENTS_MD = re.compile(r'("?)\$(?:(ARGUMENTS)\b|([1-9])(?!\d)|(\$)|([A-Z][A-Z0-9_]*))\1')
_ARGUMENTS_TOML = re.compile(r'("?)\{\{(args)\}\}\1')
_FILE_TOML = re.compile(r"@\{([^{}\n]+)\}")


class CommandFile(Struct, frozen=True):
    """One command: its name, its description, and the text that is sent for it."""

    name: str
    source: str
    text: str
    description: str = ""
    hint: str = ""
    model: str = ""

    def message(self, arguments: str) -> UserMessage:
        """What is sent for the command with these arguments."""
        return _Expansion(arguments, toml=self.source.endswith(".toml")).of(self.text)


class CommandEntry(Struct, frozen=True):
    """One file: the command in it, or why there is none that can be used."""

    name: str
    path: str
    command: CommandFile | None = None
    problem: str = ""


class CommandFiles:
    """The commands that can be used, by name; of files with the same name the first one is used."""

    def __init__(self, entries: Iterable[CommandEntry] = ()) -> None:
        self._entries: dict[str, CommandEntry] = {}
        for entry in entries:
            known = self._entries.get(entry.name)
            if known is None or (known.command is None and entry.command is not None):
                self._entries[entry.name] = entry

    @classmethod
    def load(cls, home: Path, *projects: FolderTrust, user: Path | None = None) -> "CommandFiles":
        """The commands of projects and of the user; `home` is the user's folder for GenCode."""
        user = users_home() if user is None else user
        found: list[CommandEntry] = []
        for folder, below_home in zip(COMMAND_FOLDERS, USER_COMMAND_FOLDERS, strict=True):
            users = users_folder(below_home, home, user)
            for project in projects:
                if project.folder / folder != users:
                    found += _of_project(project, folder)
            found += _of_user(users)
        return cls(found)

    def usable(self) -> list[CommandFile]:
        """Every command, by name."""
        return [each.command for _, each in sorted(self._entries.items()) if each.command is not None]

    def named(self, typed: str) -> bool:
        """Whether a text begins with the name of a command, also of one that cannot be used."""
        match = _TYPED.match(typed)
        return match is not None and match[1] in self._entries

    def message(self, typed: str) -> tuple[CommandFile, UserMessage] | None:
        """The command that a text begins with, and what is sent for it; None where there is none.

        UserMistake for one whose file cannot be used.
        """
        match = _TYPED.match(typed)
        entry = self._entries.get(match[1]) if match else None
        if match is None or entry is None:
            return None
        if entry.command is None:
            raise UserMistake(f"The command /{entry.name} cannot be used. {entry.problem}")
        return entry.command, entry.command.message(typed[match.end() :].strip())


class _Expansion:
    """Arguments on their way into the text of a command. In shell commands each is a word and no more."""

    def __init__(self, arguments: str, *, toml: bool) -> None:
        self._arguments = inert(arguments)
        self._toml = toml
        self._used = False
        try:
            self._words = shlex.split(self._arguments)
        except ValueError:  # an apostrophe, as in don't
            self._words = self._arguments.split()
        self._named = dict(word.split("=", 1) for word in self._words if "=" in word)

    def of(self, text: str) -> UserMessage:
        shell: list[str] = []
        parts: list[str] = []
        end = 0
        for start, stop, command in self._shell_parts(text):
            parts.append(self._filled(text[end:start]))
            shell.append(self._filled(command.strip(), quoted=True))
            parts.append(f"`{shell[-1]}` (its output is below)")
            end = stop
        parts.append(self._filled(text[end:]))
        said = "".join(parts).strip()
        if self._arguments and not self._used:
            said = f"{said}\n\n{self._arguments}"
        if len(shell) > MOST_SHELL or len(said) > LONGEST_MESSAGE:
            most = f"{MOST_SHELL} shell commands or {LONGEST_MESSAGE:,} characters"
            raise UserMistake(f"The command stands for more than {most}.")
        return UserMessage(said, runs=tuple(shell))

    def _shell_parts(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The positions of shell commands: !`command`, or !{command} with balanced braces in TOML."""
        if not self._toml:
            yield from ((found.start(), found.end(), found[1]) for found in _SHELL_MD.finditer(text))
            return
        at = 0
        while (start := text.find("!{", at)) >= 0:
            depth, at = 1, start + 2
            while at < len(text) and depth:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            if depth:
                return
            yield start, at, text[start + 2 : at - 1]

    def _filled(self, text: str, *, quoted: bool = False) -> str:
        if self._toml:
            text = _FILE_TOML.sub(lambda found: f'@"{found[1].strip()}"', text)
        pattern = _ARGUMENTS_TOML if self._toml else _ARGUMENTS_MD
        return pattern.sub(lambda found: self._argument(found, quoted), text)

    def _argument(self, found: "re.Match[str]", quoted: bool) -> str:
        """The value of a placeholder; quotes around it are dropped where its words are quoted one by one."""
        around, kind = found[1], found.lastindex
        if not self._toml and kind == 4:
            return f"{around}${around}"
        if not self._toml and kind == 5 and found[5] not in self._named:
            return found[0]
        self._used = True
        if self._toml or kind == 2:
            words, plain = self._words, self._arguments
        else:
            place = int(found[3]) - 1 if kind == 3 else 0
            words = self._words[place : place + 1] if kind == 3 else [self._named[found[5]]]
            plain = "".join(words)
        return shlex.join(words or [""] * bool(around)) if quoted else f"{around}{plain}{around}"


def _entry(path: str, below: PurePosixPath, content: Callable[[], bytes], why_not: str = "") -> CommandEntry:
    """The command of a file; `below` is its path in the folder of commands, which is its name."""
    name = ":".join(below.with_suffix("").parts)
    if why_not:
        return CommandEntry(name, path, problem=f"{path}: {why_not}")
    try:
        text = decoded(content(), path)
        return CommandEntry(name, path, _command(name, path, text))
    except UserMistake as mistake:
        return CommandEntry(name, path, problem=str(mistake))


def _command(name: str, path: str, text: str) -> CommandFile:
    fields: dict[str, Any] = {}
    if path.endswith(".toml"):
        fields = parse(text, path).fields
        body = fields.get("prompt")
        if not isinstance(body, str):
            raise UserMistake(f"{path}: a command needs a prompt, as text.")
    elif text.removeprefix("\ufeff").lstrip().startswith("---"):
        matter = read_front_matter(text, path, "slash command")
        fields, body = matter.fields, matter.body
    else:
        body = text
    if not body.strip():
        raise UserMistake(f"{path}: it has no text.")
    return CommandFile(
        name=name,
        source=path,
        text=inert(body),
        description=_word(fields, "description") or one_line(inert(body).strip().lstrip("# "), 80),
        hint=_word(fields, "argument-hint"),
        model=_word(fields, "model"),
    )


def _word(fields: dict[str, Any], name: str) -> str:
    """A field as one line; `[file] [line]` in a hint is a list to YAML."""
    value = fields.get(name)
    if isinstance(value, list):
        value = " ".join(f"[{each}]" for each in value)  # pyright: ignore[reportUnknownVariableType]
    return one_line(inert(value), LONGEST_WORD) if isinstance(value, str) else ""


def _is_command(below: PurePosixPath) -> bool:
    parts = below.with_suffix("").parts
    return below.suffix in COMMAND_ENDINGS and all(map(_NAME.fullmatch, parts))


def _of_project(project: FolderTrust, folder: str) -> Iterator[CommandEntry]:
    """The commands of a folder: as they were when it was looked at if it is trusted, else only named."""
    why_not = "" if project.trusted else project.why_not
    content = project.brought.texts
    for path in sorted(project.brought.files):
        below = PurePosixPath(path.removeprefix(f"{folder}/"))
        if path.startswith(f"{folder}/") and _is_command(below):
            yield _entry(str(project.folder / path), below, lambda at=path: content[at], why_not)


def _of_user(folder: Path) -> Iterator[CommandEntry]:
    found = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(here, name)
            below = PurePosixPath(path.relative_to(folder))
            found += 1
            if found > MOST_FILES:
                return
            if _is_command(below):
                yield _entry(str(path), below, lambda at=path: read_bounded(at))
