"""Decides whether the words of one command only read, by tables; `command_units` and `shells` act on it.

It looks at the words of one command after transparent wrappers and safe assignments are gone. What is not
listed is not read-only, and neither is a word that could turn into an option when the shell expands it.
"""

import re
from collections.abc import Callable, Sequence

from gencode.permissions.bash import readonly_tables
from gencode.permissions.bash.options import NotReadOnly, OptionTable, read, text_of, unlisted
from gencode.permissions.bash.parts import ShellWord

_HARMLESS = re.compile(readonly_tables.HARMLESS_NAME)
_SED_ADDRESS = r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n]|\\[^\n])+/)"
_SED_PRINT = rf"{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|[+~][0-9]+))?!?p"
_SED_SCRIPT = re.compile(rf"{_SED_PRINT}(?:[ ]*;[ ]*{_SED_PRINT})*")
_AWK_PRINTS = re.compile(r"print")
_VERSION_NAME = re.compile(r"(?:python|gcc|g\+\+|clang|clang\+\+|php|ruby|lua|node)-?[0-9][0-9.]*")
_CONFIG_KEY = re.compile(readonly_tables.GIT_CONFIG_KEY)
_ENVIRONMENT_COLUMN = re.compile(r"env", re.IGNORECASE)
# bash lets flags, a width, a precision and a size stand between `%` and its letter.
_PRINTF_ASSIGNS = re.compile(r"%[-+ #0-9.*'$]*[hjlLtzqI]*n")
# A directive is followed by a text; `.include` and `import.json` are none.
_JQ_MODULE = re.compile(r"""(?<![\w.$])(?:import|include)(?=[\s"#])|modulemeta""")
_GIT_COUNT = re.compile(r"-n?[0-9]+|-U[0-9]+")
_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")

_Words = Sequence[ShellWord]


def safe_name(name: str) -> bool:
    """Whether a variable of this name may be set for any command."""
    return name in readonly_tables.SAFE_NAMES or name.startswith(readonly_tables.SAFE_NAME_START)


def harmless_assignment(name: str, value: ShellWord) -> bool:
    """Whether setting a variable, alone, changes nothing outside the script."""
    if name in readonly_tables.SUBSTITUTED_NAMES:
        return value.has("substitution")
    return safe_name(name) or _harmless(name)


def _harmless(name: str) -> bool:
    if name in readonly_tables.HARMFUL_NAMES or name.endswith(readonly_tables.HARMFUL_NAME_END):
        return False
    return _HARMLESS.fullmatch(name) is not None


def not_read_only(words: _Words, *, behind_xargs: bool) -> str:
    """Why a command may do more than read, or an empty text. `behind_xargs`: further words come at the end.

    That git runs in the workspace is for others to see to.
    """
    try:
        _judge(words, behind_xargs=behind_xargs)
    except NotReadOnly as refusal:
        return str(refusal)
    return ""


def _judge(words: _Words, *, behind_xargs: bool) -> None:
    if not words:
        raise NotReadOnly("there is no command")
    for word in words:
        for piece in word.pieces:
            if piece.kind == "brace":
                raise NotReadOnly(f"the braces of {word.source} can turn into any words")
    name = _command_name(words[0])
    if name in readonly_tables.ANY_ARGUMENTS:
        if name == "arch" and (behind_xargs or len(words) > 1):
            raise NotReadOnly("arch with arguments runs a program on some systems")
        return
    condition = _CONDITIONS.get(name)
    if not behind_xargs and _says_version(name, words[1:]):
        return
    if condition is None:
        raise NotReadOnly(f"{name} may change files")
    if behind_xargs:
        raise NotReadOnly(f"xargs can give {name} options that do more than read")
    condition(words[1:])


def _says_version(name: str, words: _Words) -> bool:
    """Whether a program is only asked for its version."""
    if len(words) != 1 or not (name in readonly_tables.VERSION_NAMES or _VERSION_NAME.fullmatch(name)):
        return False
    return _literal(words[0]) and text_of(words[0]) == ("version" if name == "go" else "--version")


def _command_name(word: ShellWord) -> str:
    if not _literal(word):
        raise NotReadOnly(f"{word.source} can be any command")
    name = text_of(word)
    for folder in _SYSTEM_FOLDERS:
        if name.startswith(folder):
            name = name[len(folder) :]
            break
    if "/" in name:
        raise NotReadOnly(f"{text_of(word)} is not in /bin or /usr/bin")
    return name


def _literal(word: ShellWord) -> bool:
    pieces = word.pieces
    return pieces[0].kind == "text" if len(pieces) == 1 else word.literal


def _check_known(words: _Words, *, stops: bool = False) -> None:
    """Every word is literal, or a pattern that is no option. `stops`: behind `--` none is."""
    behind = False
    for word in words:
        if not _literal(word):
            _check_glob(word, behind=behind)
        behind = behind or (stops and text_of(word) == "--")


def _check_glob(word: ShellWord, *, behind: bool) -> None:
    for piece in word.pieces:
        if piece.kind not in ("text", "glob"):
            raise NotReadOnly(f"the value of {word.source} is not known")
    if behind:
        return
    first = next(piece for piece in word.pieces if piece.text)
    if first.kind != "text" or first.text[0] == "-":
        raise NotReadOnly(f"{word.source} could turn into an option")


def _check_literal(words: _Words) -> None:
    for word in words:
        if not _literal(word):
            raise NotReadOnly(f"the value of {word.source} is not known")


def _by_table(command: str, table: OptionTable) -> Callable[[_Words], None]:
    def condition(words: _Words) -> None:
        _check_known(words, stops=True)
        read(command, table, words)

    return condition


def _check_exec(words: _Words, position: int) -> int:
    """Where the command of `find -exec` ends. It may be any that reads whatever its arguments are."""
    end = position
    while end < len(words) and text_of(words[end]) != ";":
        if text_of(words[end]) == "+" and end > position and text_of(words[end - 1]) == "{}":
            break
        end += 1
    if end >= len(words) or end == position:
        raise NotReadOnly("find -exec lacks its command or its end")
    name = _command_name(words[position])
    if name not in readonly_tables.ANY_ARGUMENTS or name == "arch":
        raise NotReadOnly(f"find -exec runs {name}, which may do more than read")
    return end + 1


def _find(words: _Words) -> None:
    _check_known(words)
    in_expression = False
    position = 0
    while position < len(words):
        text = text_of(words[position])
        position += 1
        if text in readonly_tables.FIND_VALUED:
            if position == len(words):
                raise NotReadOnly(f"find {text} lacks its value")
            position += 1
            in_expression = True
        elif text == "-exec":
            position = _check_exec(words, position)
            in_expression = True
        elif text in readonly_tables.FIND_PLAIN:
            in_expression = in_expression or text not in readonly_tables.FIND_BEFORE_PATHS
        elif text.startswith("-"):
            raise unlisted("find", text)
        elif in_expression:
            raise NotReadOnly(f"find takes {text} for no part of an expression")


def _uniq(words: _Words) -> None:
    # A pattern can turn into several words, and the second operand is written.
    _check_literal(words)
    operands = read("uniq", readonly_tables.UNIQ, words).operands
    if len(operands) > 1:
        raise NotReadOnly("uniq writes its second operand")
    if operands and words[-1] is not operands[0]:
        raise NotReadOnly("some uniq write to a file named by an option that stands after the operand")


def _sed(words: _Words) -> None:
    _check_known(words)
    if len(words) < 2 or text_of(words[0]) != "-n":
        raise NotReadOnly("sed only reads as sed -n SCRIPT FILES")
    _check_literal(words[:2])
    if not _SED_SCRIPT.fullmatch(text_of(words[1])):
        raise NotReadOnly(f"the sed script {text_of(words[1])} is not one that only prints lines by number")
    _check_no_options("sed", words[2:])


def _date(words: _Words) -> None:
    _check_literal(words)
    for operand in read("date", readonly_tables.DATE, words).operands:
        if not text_of(operand).startswith("+"):
            raise NotReadOnly(f"date {text_of(operand)} may set the clock")


def _printf(words: _Words) -> None:
    if not words:
        raise NotReadOnly("printf lacks its format")
    _check_literal(words[:1])
    form = text_of(words[0])
    if form.startswith("-"):
        raise unlisted("printf", form)
    if "%n" in form or _PRINTF_ASSIGNS.search(form):
        raise NotReadOnly("printf %n sets a variable")


def _bracket(words: _Words) -> None:
    if not words or not _literal(words[-1]) or text_of(words[-1]) != "]":
        raise NotReadOnly("[ lacks its ]")
    _test(words[:-1])


def _test(words: _Words) -> None:
    for word in words:
        _check_operand(word)
    known = [text_of(word) if _literal(word) else None for word in words]
    if len(words) in (3, 4) and known[0] == "!" and _is_condition(known[1:]):
        return
    if not _is_condition(known):
        raise NotReadOnly("test only takes one condition, such as -f FILE or A = B")


def _is_condition(known: Sequence[str | None]) -> bool:
    match known:
        case [str(operator), _]:
            return operator in readonly_tables.TEST_UNARY
        case [_, str(operator), _]:
            return operator in readonly_tables.TEST_BINARY
        case _:
            return False


def _check_operand(word: ShellWord) -> None:
    for piece in word.pieces:
        if piece.kind == "text":
            continue
        # "$@" turns into several words even inside quotes.
        if piece.kind not in ("variable", "substitution") or not piece.quoted or piece.text in ("$@", "${@}"):
            raise NotReadOnly(f"{word.source} can turn into several words")


def _read(words: _Words) -> None:
    _check_literal(words)
    names = [text_of(word) for word in words]
    if names and names[0] == "-r":
        names = names[1:]
    if not names:
        raise NotReadOnly("read sets REPLY unless it is given names")
    for name in names:
        if not _harmless(name):
            raise NotReadOnly(f"read sets {name}, which is not known to be harmless")


def _jq(words: _Words) -> None:
    _check_known(words)
    for word in words:
        if "env" in text_of(word).lower():
            raise NotReadOnly(f"jq {text_of(word)} may print the environment")
        if _JQ_MODULE.search(text_of(word)):
            raise NotReadOnly(f"jq {text_of(word)} loads a module, which may print the environment")
        if text_of(word) == "--":
            raise unlisted("jq", "--")
    reading = read("jq", readonly_tables.JQ, words)
    # Only the files after the filter may be patterns: other words would move to another place.
    _check_literal([*reading.value_words, *reading.operands[:1]])


def _base64(words: _Words) -> None:
    _check_known(words)
    for value in read("base64", readonly_tables.BASE64, words).values:
        if not (value.isascii() and value.isdigit()):
            raise NotReadOnly(f"base64 cannot wrap lines at {value}")


def _command(words: _Words) -> None:
    _check_known(words)
    if len(words) < 2 or text_of(words[0]) not in ("-v", "-V"):
        raise NotReadOnly("command only reads as command -v NAME")
    _check_no_options("command", words[1:])


def _check_no_options(command: str, words: _Words) -> None:
    for word in words:
        if text_of(word).startswith("-"):
            raise unlisted(command, text_of(word))


def _awk(words: _Words) -> None:
    _check_known(words)
    position = 0
    while position < len(words) and (text := text_of(words[position])).startswith("-"):
        if text[:2] not in ("-F", "-v") or not _literal(words[position]):
            raise unlisted("awk", text)
        position += 1
        if len(text) == 2:
            _check_literal(words[position : position + 1])
            position += 1
    if position >= len(words):
        raise NotReadOnly("awk lacks its program")
    _check_literal(words[: position + 1])
    program = text_of(words[position])
    for refused in readonly_tables.AWK_REFUSED:
        if refused in program:
            raise NotReadOnly(f"the awk program {program} may do more than read")
    if "|" in program.replace("||", "") or (_AWK_PRINTS.search(program) and ">" in program.replace(">=", "")):
        raise NotReadOnly(f"the awk program {program} may write a file or run a command")
    _check_no_options("awk", words[position + 1 :])


def _ps(words: _Words) -> None:
    _check_literal(words)
    unix: list[ShellWord] = []
    for word in words:
        text = text_of(word)
        if text in readonly_tables.PS_AS_BSD or (text and readonly_tables.PS_BSD.issuperset(text)):
            continue
        if text.startswith("-") and not text.startswith("--") and "x" in text:
            raise unlisted("ps", text)  # where no user has that name, ps reads all of it as BSD options
        unix.append(word)
    reading = read("ps", readonly_tables.PS, unix)
    for value in reading.values:
        if _ENVIRONMENT_COLUMN.search(value):
            raise NotReadOnly(f"ps {value} shows environments")
    for operand in reading.operands:
        if not all(each.isdecimal() for each in text_of(operand).split(",")):
            raise unlisted("ps", text_of(operand))


def _tar(words: _Words) -> None:
    _check_literal(words)
    if not words:
        raise NotReadOnly("tar lacks its options")
    first = text_of(words[0])
    if not first.startswith("-"):  # the old style: the value of `f` is the next word
        if not readonly_tables.TAR_OLD.issuperset(first) or first.count("f") != 1:
            raise unlisted("tar", first)
        lists, rest = "t" in first, words[1:]
        if not rest:
            raise NotReadOnly("tar f lacks its archive")
        archives, rest = [text_of(rest[0])], rest[1:]
        reading = read("tar", readonly_tables.TAR, rest)
    else:
        reading = read("tar", readonly_tables.TAR, words)
        lists = any(_is_tar_list(text_of(word)) for word in words)
        archives = list(reading.values)
        if not any(_names_archive(text_of(word)) for word in words):
            raise NotReadOnly("tar without an archive may read a tape drive that a variable names")
    if not lists or any(":" in each for each in (*archives, *reading.values)):
        raise NotReadOnly(
            "tar only reads as tar tf ARCHIVE, and an archive with a colon may be on another host"
        )


def _is_tar_list(text: str) -> bool:
    return text == "--list" or (text[:1] == "-" and text[1:2] != "-" and "t" in text.partition("f")[0])


def _names_archive(text: str) -> bool:
    return text.startswith("--file") or (text[:1] == "-" and text[1:2] != "-" and "f" in text)


def _unzip(words: _Words) -> None:
    _check_literal(words)
    if len(words) < 2 or text_of(words[0]) != "-l":
        raise NotReadOnly("unzip only reads as unzip -l ARCHIVE")
    _check_no_options("unzip", words[1:])


def _zcat(words: _Words) -> None:
    _check_known(words)
    _check_no_options("zcat", words)


def _xxd(words: _Words) -> None:
    _check_literal(words)
    # Its options stand alone: what looks like a cluster may be `-r`, or the second operand a file to write.
    if any(text.startswith("-") and len(text) > 2 for text in map(text_of, words)):
        raise NotReadOnly("xxd takes its options one by one")
    if len(read("xxd", readonly_tables.XXD, words).operands) > 1:
        raise NotReadOnly("xxd writes its second operand")


def _tee(words: _Words) -> None:
    _check_literal(words)
    if any(text_of(word) != "/dev/null" for word in words):
        raise NotReadOnly("tee writes a file")


def _hostname(words: _Words) -> None:
    if words:
        raise NotReadOnly("hostname with arguments may set the name")


def _git(words: _Words) -> None:
    _check_known(words, stops=True)
    if len(words) == 1 and text_of(words[0]) == "--version":
        return
    position = 0
    while position < len(words):
        if text_of(words[position]) == "-C":
            _check_literal(words[position : position + 2])
            position += 2
        elif text_of(words[position]) in readonly_tables.GIT_BEFORE:
            position += 1
        else:
            break
    if position >= len(words):
        raise NotReadOnly("git lacks a subcommand")
    name, rest = text_of(words[position]), words[position + 1 :]
    _check_literal(words[position : position + 1])
    if name in readonly_tables.GIT_READERS:
        _git_reader(name, [text_of(word) for word in rest])
    elif condition := _GIT_CONDITIONS.get(name):
        condition(rest)
    elif name.startswith("-"):
        raise unlisted("git", name)
    else:
        raise NotReadOnly(f"git {name} may change files")


def _git_reader(name: str, values: Sequence[str]) -> None:
    for position, text in enumerate(values):
        following = values[position + 1] if position + 1 < len(values) else None
        if text == "--":
            return
        if text.startswith("--"):
            _git_long(name, text, following)
        elif text in readonly_tables.GIT_SEARCHES:
            if following is None or following.startswith("-"):
                raise NotReadOnly(f"git {name} {text} lacks its value")
        elif text.startswith("-") and not _is_git_short(text):
            raise unlisted(f"git {name}", text)


def _is_git_short(text: str) -> bool:
    if text[:2] in readonly_tables.GIT_SEARCHES or _GIT_COUNT.fullmatch(text):
        return True
    return len(text) > 1 and readonly_tables.GIT_CLUSTER.issuperset(text[1:])


def _git_long(name: str, text: str, following: str | None) -> None:
    option, equals, value = text[2:].partition("=")
    if name == "merge-base" and text == "--is-ancestor":
        return
    if option not in readonly_tables.GIT_LONG_VALUED and (equals or option not in readonly_tables.GIT_LONG):
        raise unlisted(f"git {name}", text)
    if option in ("pretty", "format") and "%G" in value:
        raise NotReadOnly(f"git {name} {text} runs a program that checks signatures")
    if option == "dirty" and name == "describe":
        raise NotReadOnly("git describe --dirty rewrites the index")
    if not equals and option in readonly_tables.GIT_HUNGRY and following == "--":
        raise NotReadOnly(f"git {name} {text} takes -- for its value")


def _git_table(name: str, table: OptionTable) -> Callable[[_Words], None]:
    def condition(words: _Words) -> None:
        reading = read(f"git {name}", table, words)
        _check_literal(reading.value_words)
        _check_formats(name, reading.values)

    return condition


def _check_formats(name: str, values: Sequence[str]) -> None:
    if any("signature" in value for value in values):
        raise NotReadOnly(f"git {name} may run a program that checks signatures")


def _git_config(words: _Words) -> None:
    _check_literal(words)
    known = [text_of(word) for word in words]
    if len(known) != 2 or known[0] != "--get" or not _CONFIG_KEY.fullmatch(known[1]):
        raise NotReadOnly("git config only reads as git config --get KEY, for keys that hold no secrets")


def _git_branch(words: _Words) -> None:
    reading = read("git branch", readonly_tables.GIT_BRANCH, words)
    _check_formats("branch", reading.values)
    operands = reading.operands
    if not operands:
        return
    for word in words:
        text = text_of(word)
        if text.startswith(readonly_tables.GIT_BRANCH_LISTS) or (
            text.startswith("-") and not text.startswith("--") and "l" in text
        ):
            break
    else:
        raise NotReadOnly(f"git branch {text_of(operands[0])} may make a branch")
    if any(text_of(word) == "--" for word in words):
        raise unlisted("git branch", "--")


def _git_tag(words: _Words) -> None:
    reading = read("git tag", readonly_tables.GIT_TAG, words)
    _check_formats("tag", reading.values)
    if reading.operands and text_of(words[0]) not in ("-l", "--list"):
        raise NotReadOnly("git tag only reads alone or with -l")
    if any(text_of(word) == "--" for word in words):
        raise unlisted("git tag", "--")


def _git_remote(words: _Words) -> None:
    known = [text_of(word) for word in words]
    if known[:1] == ["get-url"] and len(known) == 2 and not known[1].startswith("-"):
        return
    if words and (len(words) > 1 or known[0] not in ("-v", "--verbose")):
        raise NotReadOnly("git remote only reads alone, with -v or as get-url")


def _git_list(words: _Words) -> None:
    if len(words) != 1 or text_of(words[0]) != "list":
        raise NotReadOnly("this git subcommand only reads with list alone")


def _git_reflog(words: _Words) -> None:
    if not words:
        return
    if text_of(words[0]) != "show":
        raise NotReadOnly("git reflog only reads alone or with show")
    _check_no_options("git reflog", words[1:])


_CONDITIONS: dict[str, Callable[[_Words], None]] = {
    "find": _find,
    "rg": _by_table("rg", readonly_tables.RG),
    "sort": _by_table("sort", readonly_tables.SORT),
    "uniq": _uniq,
    "sed": _sed,
    "date": _date,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "read": _read,
    "file": _by_table("file", readonly_tables.FILE),
    "jq": _jq,
    "base64": _base64,
    "command": _command,
    "git": _git,
    "awk": _awk,
    "ps": _ps,
    "tree": _by_table("tree", readonly_tables.TREE),
    "tar": _tar,
    "unzip": _unzip,
    "zcat": _zcat,
    "xxd": _xxd,
    "tee": _tee,
    "hostname": _hostname,
}
_GIT_CONDITIONS: dict[str, Callable[[_Words], None]] = {
    "branch": _git_branch,
    "tag": _git_tag,
    "remote": _git_remote,
    "stash": _git_list,
    "worktree": _git_list,
    "reflog": _git_reflog,
    "grep": _git_table("grep", readonly_tables.GIT_GREP),
    "show-ref": _git_table("show-ref", readonly_tables.GIT_SHOW_REF),
    "for-each-ref": _git_table("for-each-ref", readonly_tables.GIT_FOR_EACH_REF),
    "check-ignore": _git_table("check-ignore", readonly_tables.GIT_CHECK_IGNORE),
    "count-objects": _git_table("count-objects", readonly_tables.GIT_COUNT_OBJECTS),
    "config": _git_config,
}
