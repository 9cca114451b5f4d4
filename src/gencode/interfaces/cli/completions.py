"""`gen completions`: scripts for shell completion, and the words that may follow at each Tab."""

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.core.text import visible_line
from gencode.interfaces.cli.parser import Commands, add, build_parser

MOST_OFFERED = 50

BASH = r"""# Completion of gen in bash; in ~/.bashrc: source <(gen completions bash)
_gen() {
    local line kind=
    COMPREPLY=()
    while IFS= read -r line; do
        if [ -z "$kind" ]; then kind=$line; else COMPREPLY+=("${line%%$'\t'*}"); fi
    done < <("$1" __complete bash "$2" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case $kind in
        files | dirs)
            compopt -o filenames 2>/dev/null
            local what=-f
            [ "$kind" = dirs ] && what=-d
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$what" -- "$2")
            ;;
        open) compopt -o nospace 2>/dev/null ;;
    esac
}
complete -F _gen gen
"""
ZSH = r"""#compdef gen
# Completion of gen in zsh; in ~/.zshrc, after compinit: source <(gen completions zsh)
_gen() {
    local line kind
    local -a found shown
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            found+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }")
        fi
    done < <("${words[1]}" __complete words "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    case $kind in
        files) compset -P '--*='; _files ;;
        dirs) compset -P '--*='; _files -/ ;;
        open) compadd -S '' -l -d shown -a found ;;
        *) compadd -l -d shown -a found ;;
    esac
}
if [ "${funcstack[1]}" = _gen ]; then _gen "$@"; else compdef _gen gen; fi
"""
FISH = r"""# Completion of gen in fish; save it as ~/.config/fish/completions/gen.fish
function __gen_offers
    set -l token (commandline -ct)
    set -l typed (commandline -opc)
    set -l lines ($typed[1] __complete words $typed[2..-1] "$token" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$token"
        case dirs
            __fish_complete_directories "$token"
        case '*'
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
    end
end
complete -c gen -f -a '(__gen_offers)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


Kind = Literal["words", "files", "dirs", "open"]
"""What is offered: words, the shell's own files or folders, or words that are not whole yet."""
MODELS = (
    ("fast", "the fast tier"),
    ("balanced", "the tier between"),
    ("powerful", "the powerful tier"),
    *((name, "a tier by another name") for name in ("haiku", "sonnet", "opus")),
    ("offline", "the built-in search"),
    ("scripted:", "a file that is played"),
)
LONGEST_SAID = 80

Found = Iterable[tuple[str, str]]
Look = Callable[[str, str], Found]
"""Names or ids of a kind (agents, servers, tasks, sessions) in a folder, each with a word about it."""


class Completions(Struct, frozen=True):
    """The completions of the last word."""

    kind: Kind = "words"
    words: tuple[tuple[str, str], ...] = ()


class CommandPosition(Struct):
    """Where in a command line we are, after so many whole words."""

    parser: argparse.ArgumentParser
    command: str = "gen"
    taken: int = 0
    wanted: argparse.Action | None = None
    """The option whose value comes next."""
    more: bool = False
    """Whether that value may be left out."""
    only_words: bool = False
    folder: str = "."


def add_command(commands: Commands, does: str) -> None:
    """`gen completions`."""
    parser = add(
        commands,
        "completions",
        run,
        does,
        (
            "source <(gen completions bash)",
            "gen completions zsh",
            "gen completions fish > ~/.config/fish/completions/gen.fish",
        ),
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from gencode.interfaces.render.plain_text import answer, answer_json

    script = SCRIPTS[args.shell]
    if "json" in args:
        answer_json({"shell": args.shell, "script": script})
    else:
        answer(script.rstrip("\n"))
    return 0


def complete(words: list[str]) -> int:
    """Answer a completion script: the kind on the first line, then one completion a line, described.

    `bash CURRENT LINE` is a line up to the cursor and what bash takes for the current word; `words WORD…` are
    the words after the command. Errors are never shown while somebody types.
    """
    if words[:1] == ["bash"] and len(words) == 3:
        typed = split_line(words[2])[1:]
        found = _for_bash(
            completions_for(build_parser(typed), typed, _look), typed[-1] if typed else "", words[1]
        )
    else:
        found = completions_for(build_parser(words), words[1:], _look)
    lines = [f"{word}\t{says}" if says else word for word, says in found.words]
    print("\n".join((found.kind, *lines)))
    return 0


def _for_bash(found: Completions, last: str, current: str) -> Completions:
    """As bash puts words in: without what it takes for words of their own, and with marks before signs."""
    before = len(last) - len(current) if last.endswith(current) else 0
    words = tuple((re.sub(r"([^\w@%+=:,./-])", r"\\\1", word[before:]), says) for word, says in found.words)
    return Completions(found.kind, words)


def _look(kind: str, folder: str) -> Found:
    """The agents, servers, or latest tasks or conversations, of a folder; none where they cannot be read."""
    from gencode.interfaces.event_loop_runner import run_to_end

    try:
        if kind == "servers":
            return _servers(Path(folder))
        return _agents(Path(folder)) if kind == "agents" else run_to_end(_tasks(kind, Path(folder)))
    except (UserMistake, OSError):
        return ()


def _agents(folder: Path) -> Found:
    from gencode.app import Registry
    from gencode.permissions.trust import standing
    from gencode.places import workspace_at
    from gencode.settings import gen_home

    home = gen_home()
    found = Registry.load(home, standing(workspace_at(folder).root, home))
    return [(spec.name, spec.description) for spec in found.spawnable()]


def _servers(folder: Path) -> Found:
    """The MCP servers of the settings."""
    from gencode.permissions.trust import standing
    from gencode.places import workspace_at
    from gencode.settings import gen_home, layers, server_tables

    root = workspace_at(folder).root
    tables = server_tables(layers(root, project=standing(root, gen_home())))
    return [(name, origin) for origin, table, _ in tables for name in table]


async def _tasks(kind: str, folder: Path) -> Found:
    """The tasks in the journal of this machine; a remote database is not queried while somebody types."""
    from gencode.app import open_store
    from gencode.core.outcome import title_of
    from gencode.journal.store import TaskQuery
    from gencode.places import database, workspace_at
    from gencode.settings import load

    here = workspace_at(folder)
    if not database().exists() or load(here.root).database_url:
        return ()
    store = await open_store(database(), "normal")
    try:
        query = TaskQuery(cwd=str(here.cwd), conversations=kind == "sessions", limit=MOST_OFFERED)
        tasks = await store.tasks(query)
    finally:
        await store.close()
    titles = ((each, title_of(each)) for each in tasks)
    return [(each.id, f"{each.status}: {each.agent}: {title}") for each, title in titles]


def completions_for(parser: argparse.ArgumentParser, words: Sequence[str], look: Look) -> Completions:
    """The completions of the last of these words, which follow `gen`."""
    *whole, last = words or [""]
    place = CommandPosition(parser)
    for word in whole:
        _step(place, word)
    name, equals, _ = last.partition("=")
    if equals and last.startswith("--") and place.wanted is None:
        action = _options(place.parser).get(name)
        values = Completions() if action is None else _values(action, place, look)
        whole_words = tuple((f"{name}={word}", says) for word, says in values.words)
        return _beginning(Completions(values.kind, whole_words), last)
    if place.wanted is not None and not (place.more and last.startswith("-")):
        found = _values(place.wanted, place, look)
        return _beginning(found, last) if not place.more or found.words else _next(place, last, look)
    return _next(place, last, look)


def _next(place: CommandPosition, last: str, look: Look) -> Completions:
    """An option or a positional argument."""
    if last.startswith("-") and not place.only_words:
        return _beginning(Completions(words=tuple(_named(place.parser))), last)
    action = _positional(place)
    if action is None:
        return Completions() if place.only_words or last else Completions(words=tuple(_named(place.parser)))
    return _beginning(_values(action, place, look), last)


def _step(place: CommandPosition, word: str) -> None:
    """Continue after one complete word."""
    if place.wanted is not None and not (place.more and word.startswith("-")):
        if place.wanted.dest == "cwd":
            place.folder = word
        if place.wanted.nargs != "+":
            place.wanted = None
        place.more = place.wanted is not None
        return
    place.wanted, place.more = None, False
    if word.startswith("-") and word != "-" and not place.only_words:
        place.only_words = word == "--"
        name, equals, value = word.partition("=")
        action = _options(place.parser).get(name)
        if action is not None and equals and action.dest == "cwd":
            place.folder = value
        if action is not None and not equals and action.nargs != 0:
            place.wanted, place.more = action, action.nargs == "?"
        return
    action = _positional(place)
    below = _commands(action) if action is not None else {}
    if word in below:
        place.parser, place.command, place.taken = below[word], f"{place.command} {word}", 0
    elif below:  # the command is unknown, and so are its arguments
        place.taken, place.only_words = place.taken + 1, True
    elif action is not None and action.nargs not in ("*", "+"):
        place.taken += 1


def _values(action: argparse.Action, place: CommandPosition, look: Look) -> Completions:
    """The values of an option or argument: its choices, or the ids, names or files it takes."""
    if below := _commands(action):
        said = {each.dest: each.help or "" for each in _listed(action)}
        return Completions(words=tuple((name, said.get(name, "")) for name in below))
    if action.choices is not None:
        return Completions(words=tuple((str(each), "") for each in action.choices))
    match action.metavar:
        case "FILE" | "PATH":
            return Completions("files")
        case "DIR":
            return Completions("dirs")
        case "MODE":
            return Completions(words=tuple((mode.value, "") for mode in Mode))
        case "M":
            return Completions(words=MODELS)
        case "RULE" | "TOOLS" | "T":
            return Completions(words=tuple((name, "") for name in _tools()))
        case _:
            return Completions(
                words=tuple(_shown(look(kind, place.folder)) if (kind := _kind(action, place)) else ())
            )


def _kind(action: argparse.Action, place: CommandPosition) -> str:
    """Which of the things that are looked up is meant, if any."""
    if action.dest in ("agent", "subagent") or (place.command == "gen agents show" and action.dest == "name"):
        return "agents"
    if action.dest == "server":
        return "servers"
    if action.metavar != "ID" or place.command.startswith("gen cron"):
        return ""
    return "sessions" if action.dest == "session" or place.command.startswith("gen sessions") else "tasks"


def _shown(found: Found) -> Iterator[tuple[str, str]]:
    """The completions that can be typed, with one-line descriptions."""
    for word, says in found:
        if word.isprintable():
            yield word, visible_line(says, LONGEST_SAID)


def _beginning(found: Completions, last: str) -> Completions:
    """The completions that begin with the typed word; case is ignored unless it matches exactly."""
    kept = tuple(each for each in found.words if each[0].startswith(last)) or tuple(
        each for each in found.words if each[0].casefold().startswith(last.casefold())
    )
    unfinished = bool(kept) and all(word.endswith(":") for word, _ in kept)
    return Completions("open" if unfinished else found.kind, kept)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return cast("list[argparse.Action]", vars(parser)["_actions"])


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {name: action for action in _actions(parser) for name in action.option_strings}


def _named(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The options that help shows, each under its long names."""
    for action in _actions(parser):
        if action.help == argparse.SUPPRESS:
            continue
        long = [name for name in action.option_strings if name.startswith("--")]
        for name in long or action.option_strings:
            yield name, visible_line(action.help or "", LONGEST_SAID)


def _positional(place: CommandPosition) -> argparse.Action | None:
    """What comes next without an option."""
    left = [action for action in _actions(place.parser) if not action.option_strings]
    return left[place.taken] if place.taken < len(left) else None


def _commands(action: argparse.Action) -> dict[str, argparse.ArgumentParser]:
    choices = cast("object", action.choices)
    below = cast("dict[str, object]", choices) if isinstance(choices, dict) else {}
    return {name: each for name, each in below.items() if isinstance(each, argparse.ArgumentParser)}


def _listed(action: argparse.Action) -> list[argparse.Action]:
    """The commands below one, as help lists them."""
    return cast("list[argparse.Action]", vars(action).get("_choices_actions", []))


def _tools() -> list[str]:
    from gencode.permissions.decision import KNOWN_TOOLS

    return sorted(KNOWN_TOOLS)


def split_line(line: str) -> list[str]:
    """A line that is being typed in bash as words; the last is empty when a new one begins."""
    if (len(line) - len(line.rstrip("\\"))) % 2:
        line = line[:-1]
    for ending in ("", '"', "'"):
        words = _split(line + ending)
        if words is not None:
            begun = bool(ending) or not line[-1:].isspace() or line.endswith("\\ ")
            return words if begun and words else [*words, ""]
    return [""]


def _split(text: str) -> list[str] | None:
    try:
        return shlex.split(text)
    except ValueError:
        return None
