"""`gen completions`: a script for a shell, which asks us what may follow whenever somebody presses Tab."""

import argparse
import re
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.interfaces.cli.parser import build_parser
from gencode.interfaces.cli.shell_completion import Found, Offers, offers, split_line

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
    """Answer a script: what is offered on the first line, then one offer per line with a word about it.

    `bash CURRENT LINE` is a line up to the cursor and what bash takes for the current word; `words WORD…` are
    the words behind the command. Nobody wants to read about trouble while typing, so there is none.
    """
    if words[:1] == ["bash"] and len(words) == 3:
        typed = split_line(words[2])[1:]
        found = _for_bash(offers(build_parser(), typed, _look), typed[-1] if typed else "", words[1])
    else:
        found = offers(build_parser(), words[1:], _look)
    lines = [f"{word}\t{says}" if says else word for word, says in found.words]
    print("\n".join((found.kind, *lines)))
    return 0


def _for_bash(found: Offers, last: str, current: str) -> Offers:
    """As bash puts words in: without what it takes for words of their own, and with marks before signs."""
    before = len(last) - len(current) if last.endswith(current) else 0
    words = tuple((re.sub(r"([^\w@%+=:,./-])", r"\\\1", word[before:]), says) for word, says in found.words)
    return Offers(found.kind, words)


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
    """What is in the journal of this machine; a database elsewhere is not asked while somebody types."""
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
