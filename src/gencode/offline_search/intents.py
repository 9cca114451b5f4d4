"""Detects the intent of a text by rules: a search, a definition, a list, a file, a greeting, work to refuse.

Everything that is not clearly one of these is a search: patterns over whole sentences break as soon as
somebody words a question differently.
"""

import re
from dataclasses import dataclass

from gencode.offline_search.question_splitter import content

_POLITE = (
    "(?:please|kindly|hey|hi|hello|ok|okay|now|then|just|so|can you|could you|would you|will you|"
    "i want you to|i want to|i need you to|i'd like you to|let's|help me(?: to)?|go ahead and|"
    "you should|try to)"
)
_LEAD = re.compile(rf"^(?:[\s,.!]*{_POLITE}\b)*[\s,.!:]*", re.IGNORECASE)
_ALWAYS_WORK = (
    "fix|edit|write|add|implement|refactor|rename|delete|remove|create|modify|replace|install|deploy|rewrite|"
    "improve|optimi[sz]e|translate|convert|execute|insert|append|patch|upgrade|"
    "simplify|clean up|set up|generate|migrate|invent|solve|compute|calculate"
)
_MAYBE_WORK = (
    "run|build|test|change|update|make|move|format|debug|commit|push|review|plan|design|document|bump|do|start|"
    "stop|apply|turn|port|merge|revert|extract|split|compile|lint|draft"
)
_OBJECT = (
    r"(?:the|a|an|all|this|that|these|those|my|our|your|its|it|them|me|some|every|each|new|any|tests?|pytest|npm|"
    r"make|cargo|go|python|pip|git|`|'|\"|\.?/)"
)
_WORK = re.compile(rf"^(?:(?:{_ALWAYS_WORK})\b|(?:{_MAYBE_WORK})\s+{_OBJECT})", re.IGNORECASE)
_THEN_WORK = re.compile(
    r"\b(?:and|then|,)\s+(?:then\s+|please\s+)?(?:fix|edit|rewrite|implement|refactor|rename|delete|remove|change|update|"
    r"modify|replace|patch)\s+(?:it|them|the|that|this|these|those|all|every|any)\b",
    re.IGNORECASE,
)
_EXPLAIN = re.compile(
    r"^(?:why|how come|for what reason|what(?:'s| is) the (?:reason|rationale|purpose|point)|explain|"
    r"describe|summari[sz]e|teach|compare|evaluate|analy[sz]e)\b",
    re.IGNORECASE,
)
_NOT_IN_FILES = re.compile(
    r"^(?:what|which|who|when)\b.*\b(?:chang|commit|wrote|author|modif|touch|edit|add)\w*\b.*"
    r"\b(?:last|latest|recent|recently|yesterday|today|week|month|newest)\b"
    r"|^who (?:wrote|changed|added|committed)\b"
    r"|\b(?:no|without|missing|lacks?|lacking|need|needs) (?:any )?(?:unit )?tests?\b"
    r"|\b(?:untested|not tested)\b",
    re.IGNORECASE,
)
"""Questions about history and about what is absent: no file has the answer."""
_KIND = r"(?:class|function|method|struct|interface|trait|enum|type|macro)"
_NAME = r"[`'\"]?(?P<{}>[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)(?:\(\))?[`'\"]?"
_DEFINITION = re.compile(
    r"^(?:show|find|open|print|display|give|see|look at|locate|where(?:'s| is)|what(?:'s| is| does))?"
    r"(?:\s*\b(?:me|us|the|a|an|code|source|body|definition|declaration|implementation|of|for))*\s*"
    rf"(?:\b{_KIND}\s+{_NAME.format('behind')}|\b{_NAME.format('before')}\s+{_KIND})"
    r"(?:\s+(?:defined|declared|implemented|located|is|do|please))*[\s.?!]*$",
    re.IGNORECASE,
)
_COLLECT = re.compile(
    r"^(?:list|enumerate|name|(?:show|give|tell)(?: me| us)?|what are|which are)\s+"
    r"(?:(?P<all>all|every|each)(?: of)?(?: the)?|(?:the|our|its))\s+"
    r"(?P<words>(?!.*\b(?:where|which|that|who|how|when|of|for|to|with|by)\b)[\w' -]+?)"
    r"(?: (?:that )?(?:there are|exist|we have|you have|are there|in (?:here|this \w+|the \w+)))?[\s.?!]*$",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"^(?:hi|hello|hey|hallo|hola|yo|good (?:morning|evening|day)|thanks?(?: you)?|thx|ok(?:ay)?|bye|"
    r"(?:(?:hi|hello|hey)\W+)?(?:there\W+)?(?:(?:can|could) you )?help(?: me)?|"
    r"test|ping|who are you|what (?:can|do) you do|what are you)?"
    r"[\s!.?,]*(?:there|you|all|gen|gencode)?[\s!.?,]*$",
    re.IGNORECASE,
)
_QUOTED_PATH = r"[`'\"]([^`'\"\n]{1,300})[`'\"]"
_BARE_PATH = r"((?:[\w.@~+\\-]*/)*[\w@+\\-]*\.?[\w@+.\\-]+)"
_READ = re.compile(
    r"^(?:read|show|open|cat|view|display|print|dump|give|see|look at|what(?:'s| is| does)(?: in| inside)?)\b"
    r"(?:\s+(?:me|out|us|the|full|whole|entire|file|files|contents?|text|of|source|code|in|inside|lines?))*\s+"
    rf"(?:{_QUOTED_PATH}|{_BARE_PATH})"
    r"(?:[\s,]+(?:from\s+)?(?:lines?\s+)?(\d+)\s*(?:-|to|–|until)\s*(?:line\s+)?(\d+))?"
    r"(?:\s+(?:file|please|do|say|contain|contents?))*[\s.?!]*$",
    re.IGNORECASE,
)
_LINES = re.compile(
    r"^(?:read|show|open|cat|view|display|print|give)(?:\s+(?:me|us|the|out))*\s+lines?\s+(\d+)"
    r"(?:\s*(?:-|to|–|until)\s*(\d+))?\s+(?:of|in|from)\s+(?:the\s+)?(?:file\s+)?[`'\"]?([^\s`'\"]+)[`'\"]?[\s.?!]*$"
    r"|^(?:read|show|open|cat|view|display|print|give)(?:\s+(?:me|us|the|file|out))*\s+"
    r"[`'\"]?([^\s`'\":]+):(\d+)(?:-(\d+))?[`'\"]?[\s.?!]*$",
    re.IGNORECASE,
)
"""`lines A-B of PATH`, or `PATH:A-B`."""
_KNOWN_FILES = re.compile(
    r"^(?:readme|license|changelog|makefile|dockerfile|contributing|authors|procfile)$", re.IGNORECASE
)
_LIST = re.compile(
    r"^(?:list|ls|enumerate|find|show|give|which|what|get|display)\b(?:\s+(?:me|out|all|of|the|every|each|any|up))*"
    r"(?:\s+(?P<kind>[\w+#.*/-]+?))??"
    r"\s+(?P<what>files?|modules?|scripts?|folders?|director(?:y|ies)|sources?|contents?|tests?|documents?)\b"
    r"(?:\s+(?:are|is|exist|live|there|that|do|we|have|you|see|of|placed|located|stored))*"
    r"(?:\s*(?:in|under|inside|within|below|of|from|at)\s+(?:the\s+|folder\s+|directory\s+)*"
    r"(?P<where>[`'\"]?[^\s`'\"?]+[`'\"]?)(?:\s+(?:folder|directory|dir|package|tree))?)?[\s.?!]*$",
    re.IGNORECASE,
)
_LIST_PATH = re.compile(
    r"^(?:list|ls)(?:\s+(?:the\s+)?[`'\"]?(?P<where>[\w./@*?{},-]+)[`'\"]?)?[\s.?!]*$", re.IGNORECASE
)
_HERE = frozenset(("here", "repository", "repo", "project", "codebase", "workspace", "root", ".", "./", "it"))
_ENDINGS = {
    "python": "py", "py": "py", "javascript": "js", "js": "js", "typescript": "{ts,tsx}", "ts": "{ts,tsx}",
    "rust": "rs", "go": "go", "golang": "go", "java": "java", "c": "{c,h}", "c++": "{cc,cpp,cxx,h,hpp}",
    "cpp": "{cc,cpp,cxx,h,hpp}", "header": "{h,hpp}", "ruby": "rb", "shell": "{sh,bash}", "bash": "{sh,bash}",
    "markdown": "md", "md": "md", "json": "json", "yaml": "{yaml,yml}", "yml": "{yaml,yml}", "toml": "toml",
    "html": "html", "css": "css", "sql": "sql", "kotlin": "kt", "swift": "swift", "c#": "cs", "php": "php",
    "text": "txt", "xml": "xml", "config": "{toml,yaml,yml,json,cfg,ini}", "lua": "lua", "scala": "scala",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadIntent:
    """Read one file, or lines of it."""

    path: str
    first: int = 1
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ListIntent:
    """List files: a glob, and the folder it is meant in; `shallow` when only the folder itself is meant."""

    pattern: str
    folder: str = ""
    shallow: bool = False


@dataclass(frozen=True, slots=True)
class RefusalIntent:
    """A request for work that a search cannot do."""


@dataclass(frozen=True, slots=True)
class GreetingIntent:
    """A text that asks for nothing."""


@dataclass(frozen=True, slots=True)
class SearchIntent:
    """A question to be searched. `explains`: it asks for reasons or for a summary, which a search has not."""

    explains: bool = False


@dataclass(frozen=True, slots=True)
class DefinitionIntent:
    """Show what a name stands for."""

    name: str


@dataclass(frozen=True, slots=True)
class CollectIntent:
    """List everything of a kind: all management commands."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnsearchableIntent:
    """A question whose answer stands in no file."""


Intent = (
    ReadIntent
    | ListIntent
    | DefinitionIntent
    | CollectIntent
    | RefusalIntent
    | GreetingIntent
    | UnsearchableIntent
    | SearchIntent
)


def intent_of(text: str) -> Intent:
    """What a text wants."""
    text = text.strip().strip("\"'“”«» ").strip()
    if len(text) < 60 and _GREETING.match(text):
        return GreetingIntent()
    lead = _LEAD.match(text[:200])
    body = text[lead.end() :].strip() if lead else text
    first = body.split("\n", 1)[0][:400]
    if _WORK.match(first) or _THEN_WORK.search(text[:2000]):
        return RefusalIntent()
    short = body if len(body) < 400 else ""
    if _NOT_IN_FILES.search(short):
        return UnsearchableIntent()
    wanted = _listing(short) or _reading(short) or _definition(short) or _collection(short)
    if wanted:
        return wanted
    return SearchIntent(explains=bool(_EXPLAIN.match(first))) if content(text) else GreetingIntent()


def _definition(text: str) -> DefinitionIntent | None:
    match = _DEFINITION.match(text)
    name = (match["behind"] or match["before"]) if match else ""
    return DefinitionIntent(re.split(r"\.|::", name)[-1]) if name and content(name) else None


def _collection(text: str) -> CollectIntent | None:
    """A list of what a few words name; `list the steps to deploy` is a question."""
    match = _COLLECT.match(text)
    words = content(match["words"]) if match else []
    most = 4 if match and match["all"] else 2
    return CollectIntent(tuple(words)) if match and 0 < len(words) <= most else None


def _reading(text: str) -> ReadIntent | None:
    if found := _LINES.match(text):
        path, first, last = found[3] or found[4], int(found[1] or found[5]), found[2] or found[6]
        return ReadIntent(path, max(first, 1), int(last) if last else max(first, 1))
    match = _READ.match(text)
    if not match:
        return None
    path = (match.group(1) or match.group(2)).rstrip(".,")
    looks_like_one = (
        "/" in path.strip("/") or re.search(r"[\w)]\.[A-Za-z]\w{0,9}$", path) or _KNOWN_FILES.match(path)
    )
    if not looks_like_one and not path.startswith("."):
        return None
    first, last = match.group(3), match.group(4)
    return ReadIntent(path, int(first) if first else 1, int(last) if last else None)


def _listing(text: str) -> ListIntent | None:
    match = _LIST.match(text)
    if not match:
        return _listed_path(text)
    kind = (match.group("kind") or "").lower()
    named = text.split()[0].lower() in ("list", "ls", "enumerate")
    known = not kind or kind in _ENDINGS or re.search(r"[*.]", kind) or kind in ("test", "source")
    if not known or (not match.group("where") and not named and not kind):
        return None
    return _folder_list(kind, match.group("what").lower(), (match.group("where") or "").strip("`'\""))


def _listed_path(text: str) -> ListIntent | None:
    match = _LIST_PATH.match(text)
    if not match:
        return None
    where = match.group("where") or ""
    return ListIntent(where) if re.search(r"[*?{]", where) else _folder_list("", "", where)


def _folder_list(kind: str, what: str, where: str) -> ListIntent:
    folder = "" if where.lower() in _HERE or not where else where.rstrip("/")
    if kind in _ENDINGS:
        return ListIntent(f"**/*.{_ENDINGS[kind]}", folder)
    if re.search(r"[*?]", kind):
        return ListIntent(kind if "/" in kind else f"**/{kind}", folder)
    if re.fullmatch(r"\.\w+", kind):
        return ListIntent(f"**/*{kind}", folder)
    if kind == "test" or what.startswith("test"):
        return ListIntent("**/*{test,Test,spec}*", folder)
    return ListIntent("**/*", folder, shallow=True)
