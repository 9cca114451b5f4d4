"""Grep: search the contents of files with a regular expression; also the table of file types."""

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.errors import ToolError, nearest
from gencode.core.structs import replace
from gencode.tools.file_search import Searcher, searcher_for
from gencode.tools.files import names_from, open_file, relative, spoken
from gencode.tools.glob_patterns import BadGlob, PathFilter, split_list
from gencode.tools.output_page import OutputPage
from gencode.tools.search_listing import SearchListing, SearchRoot, search_root
from gencode.tools.search_records import FileSearch, SearchMatch
from gencode.tools.text_files import HEAD, binary_kind

_C = ("*.c", "*.h")
_CPP = ("*.cc", "*.cpp", "*.cxx", "*.c++", "*.hh", "*.hpp", "*.hxx", "*.h", "*.inl")
_JS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue")
_TS = ("*.ts", "*.tsx", "*.mts", "*.cts")
_MD = ("*.md", "*.markdown", "*.mdx")
_PY = ("*.py", "*.pyi")
_RUBY = ("*.rb", "*.rake", "*.gemspec", "*.ru", "Gemfile", "Rakefile")
_SH = ("*.sh", "*.bash", "*.zsh", "*.ksh", ".bashrc", ".bash_profile", ".zshrc", ".profile")
_YAML = ("*.yaml", "*.yml")

TYPES: dict[str, tuple[str, ...]] = {
    "bash": _SH,
    "c": _C,
    "c++": _CPP,
    "cc": _CPP,
    "clojure": ("*.clj", "*.cljc", "*.cljs"),
    "cmake": ("*.cmake", "CMakeLists.txt"),
    "cpp": _CPP,
    "cs": ("*.cs",),
    "csharp": ("*.cs",),
    "css": ("*.css", "*.scss"),
    "csv": ("*.csv",),
    "dart": ("*.dart",),
    "docker": ("*Dockerfile*",),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "erlang": ("*.erl", "*.hrl"),
    "go": ("*.go",),
    "graphql": ("*.graphql", "*.graphqls"),
    "h": ("*.h", "*.hh", "*.hpp"),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.html", "*.htm"),
    "java": ("*.java",),
    "javascript": _JS,
    "js": _JS,
    "json": ("*.json",),
    "jsx": ("*.jsx",),
    "julia": ("*.jl",),
    "kotlin": ("*.kt", "*.kts"),
    "kt": ("*.kt", "*.kts"),
    "less": ("*.less",),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak"),
    "markdown": _MD,
    "md": _MD,
    "ocaml": ("*.ml", "*.mli"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php", "*.phtml"),
    "proto": ("*.proto",),
    "py": _PY,
    "python": _PY,
    "r": ("*.r", "*.R", "*.Rmd"),
    "rb": _RUBY,
    "rs": ("*.rs",),
    "rst": ("*.rst",),
    "ruby": _RUBY,
    "rust": ("*.rs",),
    "sass": ("*.sass", "*.scss"),
    "scala": ("*.scala", "*.sbt"),
    "sh": _SH,
    "shell": _SH,
    "sql": ("*.sql",),
    "svelte": ("*.svelte",),
    "swift": ("*.swift",),
    "tf": ("*.tf", "*.tfvars"),
    "toml": ("*.toml",),
    "ts": _TS,
    "tsx": ("*.tsx",),
    "txt": ("*.txt",),
    "typescript": _TS,
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt"),
    "yaml": _YAML,
    "yml": _YAML,
    "zig": ("*.zig",),
}


LONGEST_LINE = 500

Output = Literal["files_with_matches", "content", "count"]
_LINE_BREAK = re.compile(r"(?<!\\)(?:\\\\)*\\n|\n")
_LIKE_A_MATCH = re.compile(r"\d+[:-]")
_Around = Annotated[int, Meta(ge=0, le=1_000)] | None


@tool(effect="read", name="Grep", aliases=("grep_files",))
async def GREP(
    ctx: ToolContext,
    pattern: Annotated[str, "Escape `(`, `{`, `.` to match them literally"],
    path: Annotated[str | None, "File or folder; default: the working directory"] = None,
    glob: Annotated[str | None, "Only these files: `*.py`, `src/**/*.c`, `!*.min.js`"] = None,
    type: Annotated[str | None, "py, js, ts, rust, go, java, c, md …"] = None,
    output_mode: Output = "files_with_matches",
    after: Annotated[_Around, Param("Lines after", name="-A")] = None,
    before: Annotated[_Around, Param("Lines before", name="-B")] = None,
    around: Annotated[_Around, Param("Lines around", name="-C")] = None,
    numbers: Annotated[bool, Param("Ignored: lines always have numbers", name="-n", hidden=True)] = True,
    ignore_case: Annotated[bool, Param("Ignore case", name="-i")] = False,
    multiline: Annotated[bool, "Matches may span lines"] = False,
    head_limit: Annotated[int, Meta(ge=0), "Maximum lines of output"] = 250,
    offset: Annotated[int, Meta(ge=0), "Lines of output to skip"] = 0,
) -> str:
    """Search file contents with a ripgrep regular expression; ignored and binary files are left out.

    `content` gives each file's path and below it its matches as `line:text` (`line-text` around a match).
    """
    del numbers
    searcher = searcher_for(ctx.workspace.root)
    search = FileSearch(
        base="",
        start="",
        shape=output_mode,
        pattern=pattern,
        ignore_case=ignore_case,
        multiline=multiline,
        before=(before if before is not None else around) or 0,
        after=(after if after is not None else around) or 0,
        type=type or "",
    )
    request = GrepRequest(search, path or ".", glob or "")
    return await grep_files(ctx, searcher, request, OutputPage(offset, head_limit))


class GrepRequest(NamedTuple):
    """What is searched for, and where."""

    search: FileSearch
    path: str = "."
    glob: str = ""


async def grep_files(ctx: ToolContext, searcher: Searcher, request: GrepRequest, page: OutputPage) -> str:
    """Grep with a searcher of one's choice."""
    if not request.search.multiline and _LINE_BREAK.search(request.search.pattern):
        raise ToolError("The pattern has a line break in it; set multiline=true to let a match span lines.")
    try:
        fits = PathFilter(split_list(request.glob))
    except BadGlob as error:
        raise ToolError(f"glob={request.glob!r} is not a pattern: {error}.") from None
    place, kind = await asyncio.to_thread(_place, ctx, request.path)
    shown = names_from(ctx.workspace)
    where = spoken(shown(place.path))
    if kind:
        return f"{where} is not text and is not searched: {kind}."
    search = _placed(request.search, place, fits)
    listing = SearchListing(page, _writer(shown, place, search), parted=bool(search.before or search.after))
    if search.shape == "content":
        listing.heading = lambda path: _heading(shown(place.absolute(path)))
    notes = list[str]()
    if not place.is_file:
        if request.glob:
            listing.wanted = lambda path: fits.matches(place.inside(path), shown(place.absolute(path)))
        listing.allowed = lambda path: ctx.may_read(place.absolute(path))
        if not ctx.may_read(place.path):
            notes.append("files here may only be read one by one; give the path of a single file")
    await listing.fill(searcher, search)
    if listing.ended.complaint and page.empty:
        raise _mistake(search, listing.ended.complaint)
    return listing.text(f"No matches for {search.pattern!r} in {where}.", *notes)


def _place(ctx: ToolContext, path: str) -> tuple[SearchRoot, str]:
    """Where to search, and what a named file is when it is not text."""
    resolved = ctx.place(path)
    place = search_root(ctx.workspace, resolved)
    if not place.is_file:
        return place, ""
    with open_file(resolved, relative(ctx.workspace, resolved.real)) as file:
        kind = binary_kind(file.fileno(), file.read(HEAD))
    return place, kind.name if kind else ""


def _placed(search: FileSearch, place: SearchRoot, fits: PathFilter) -> FileSearch:
    """The search at its place. A type we know ourselves means the same files to every searcher."""
    own = TYPES.get(search.type.casefold())
    return replace(
        search,
        base=place.base,
        start=place.start,
        outer=place.outer,
        type="" if own else search.type,
        names=own or fits.names,
    )


def _writer(
    named: Callable[[str], str], place: SearchRoot, search: FileSearch
) -> Callable[[SearchMatch], str]:
    """How one finding is written."""

    def write(hit: SearchMatch) -> str:
        if search.shape == "content":
            return f"{hit.number}{':' if hit.matches else '-'}{_line(hit.text)}"
        shown = named(place.absolute(hit.path))
        return f"{shown}:{hit.number}" if search.shape == "count" else shown

    return write


def _heading(path: str) -> str:
    """A path above its matches, which cannot be taken for one of them."""
    return f"./{path}" if _LIKE_A_MATCH.match(path) else path


def _line(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    text = text.removeprefix("\ufeff")
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} [… the line goes on]"


def _mistake(search: FileSearch, complaint: str) -> ToolError:
    """What the searcher found wrong, with a way out."""
    if "unrecognized file type" in complaint:
        return ToolError(
            f"type={search.type!r} is not known; use glob instead. {nearest(search.type, TYPES)}"
        )
    boxed = re.search(r"~{20,}\n(.*?)\n~{20,}", complaint, re.DOTALL)
    said = (boxed[1] if boxed else complaint.removeprefix("rg: "))[:1_000]
    return ToolError(
        f"{search.pattern!r} cannot be searched for: {said}\n"
        "To find special characters as they are, escape them with a backslash, such as `foo\\(`."
    )
