"""The contract of searchers: ripgrep and plain Python find the same in the same tree."""

import itertools
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.errors import ToolError
from gencode.tools.file_search import Searcher
from gencode.tools.grep import GrepRequest
from gencode.tools.ls import LS
from gencode.tools.search_records import FileSearch
from tests.tools.desk import Desk
from tests.tools.searching import SEARCHERS, by_file, glob, grep, search


@pytest.fixture
def tree(desk: Desk) -> Desk:
    """A workspace with everything that may go wrong in a walk."""
    desk.put(".gitignore", "*.log\n/build/\nnode_modules\n!keep.log\n")
    desk.put("a.log", "needle")
    desk.put("keep.log", "needle")
    desk.put("build/out.txt", "needle")
    desk.put("src/build/in.txt", "needle")
    desk.put("src/node_modules/x/index.js", "needle")
    desk.put("src/.gitignore", "*.tmp\n!a.log\n")
    desk.put("src/a.log", "needle")
    desk.put("src/a.tmp", "needle")
    desk.put("src/deep/.ignore", "secret*\n")
    desk.put("src/deep/secrets.txt", "needle")
    desk.put("src/deep/b.py", "one\nneedle two\nthree\n\nfive\nNeedle\n")
    desk.put("src/.hidden/c.py", "a needle\r\nnext\r\n")
    desk.put("src.txt", "needle at the end")
    desk.put(".git/config", "needle")
    desk.put("vendor/.git/HEAD", "needle")
    desk.put("vendor/lib.log", "needle")
    desk.put("bin.dat", b"needle\0needle")
    desk.put("wide.txt", "x\nneedle ü\n".encode("utf-16"))
    desk.put("latin.txt", b"caf\xe9 needle\n")
    desk.put(b"odd\xff.txt", "needle")
    desk.put("new\nline.txt", "needle")
    desk.put("empty.txt", "")
    (desk.root / "empty").mkdir()
    (desk.root / "loop").symlink_to(".")
    (desk.root / "out").symlink_to("/etc")
    (desk.root / "link.txt").symlink_to("src.txt")
    os.mkfifo(desk.root / "pipe")
    return desk


FOUND = [
    "keep.log",
    "latin.txt",
    "new\\nline.txt",
    "odd\\xff.txt",
    "src/.hidden/c.py",
    "src/a.log",
    "src/build/in.txt",
    "src/deep/b.py",
    "src.txt",
    "wide.txt",
]


@SEARCHERS
async def test_the_files_that_are_found(tree: Desk, searcher: Searcher) -> None:
    found = await grep(tree, searcher, GrepRequest(search("files_with_matches", "needle")))
    assert found.split("\n") == FOUND


@SEARCHERS
async def test_the_files_that_are_listed(tree: Desk, searcher: Searcher) -> None:
    others = [".gitignore", "bin.dat", "empty.txt", "src/.gitignore", "src/deep/.ignore"]
    expected = sorted([*FOUND, *others], key=lambda path: path.split("/"))
    assert await glob(tree, searcher, "**") == expected
    assert await glob(tree, searcher, "*.py") == ["src/.hidden/c.py", "src/deep/b.py"]
    assert await glob(tree, searcher, "./*.txt") == [
        path for path in expected if path.endswith(".txt") and "/" not in path
    ]
    assert await glob(tree, searcher, "src/*/*.{py,txt}") == [
        "src/.hidden/c.py",
        "src/build/in.txt",
        "src/deep/b.py",
    ]
    assert await glob(tree, searcher, "b.py", "src/deep") == ["src/deep/b.py"]
    assert await glob(tree, searcher, "nothing*") == []
    tree.put("ü.py")
    assert await glob(tree, searcher, "?.py") == ["src/.hidden/c.py", "src/deep/b.py", "ü.py"]


@SEARCHERS
async def test_rules_above_the_folder_count(tree: Desk, searcher: Searcher) -> None:
    assert await glob(tree, searcher, "**", "src") == [
        "src/.gitignore",
        "src/.hidden/c.py",
        "src/a.log",
        "src/build/in.txt",
        "src/deep/.ignore",
        "src/deep/b.py",
    ]
    assert await glob(tree, searcher, "**", "src/deep") == ["src/deep/.ignore", "src/deep/b.py"]


@SEARCHERS
async def test_an_ignored_folder_is_searched_when_it_is_named(tree: Desk, searcher: Searcher) -> None:
    assert await glob(tree, searcher, "**", "build") == ["build/out.txt"]
    assert await glob(tree, searcher, "**", "src/node_modules") == ["src/node_modules/x/index.js"]
    assert await glob(tree, searcher, "**", ".git") == [".git/config"]


@SEARCHERS
async def test_rules_outside_of_a_workspace_that_is_no_repository_do_not_count(
    desk: Desk, searcher: Searcher, tmp_path: Path
) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    desk.put("a.txt", "needle")
    assert await glob(desk, searcher, "**") == ["a.txt"]


@SEARCHERS
async def test_rules_of_the_repository_around_the_workspace_count(
    desk: Desk, searcher: Searcher, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n/ws/out\n")
    desk.put("a.txt")
    desk.put("b.log")
    desk.put("out/c.txt")
    assert await glob(desk, searcher, "**") == ["a.txt"]


@SEARCHERS
async def test_lines_with_their_surroundings(tree: Desk, searcher: Searcher) -> None:
    about = search("content", "needle", ignore_case=True)
    request = GrepRequest(replace(about, before=1, after=1), "src", "*.py")
    assert await grep(tree, searcher, request) == (
        "src/.hidden/c.py\n1:a needle\n2-next\n\n"
        "src/deep/b.py\n1-one\n2:needle two\n3-three\n--\n5-five\n6:Needle"
    )


@SEARCHERS
async def test_encodings_are_found_and_shown(tree: Desk, searcher: Searcher) -> None:
    request = GrepRequest(search("content", "needle"), ".", "{wide,latin,odd*,keep}.*")
    assert await grep(tree, searcher, request) == (
        "keep.log\n1:needle\n\nlatin.txt\n1:café needle\n\nodd\\xff.txt\n1:needle\n\nwide.txt\n2:needle ü"
    )


@SEARCHERS
async def test_lines_are_counted_by_file(tree: Desk, searcher: Searcher) -> None:
    everything = await grep(tree, searcher, GrepRequest(search("count", ""), "src/deep"))
    assert everything == "src/deep/.ignore:1\nsrc/deep/b.py:6"


@SEARCHERS
async def test_a_match_may_span_lines(tree: Desk, searcher: Searcher) -> None:
    spanning = search("content", r"needle.*?three", multiline=True)
    assert await grep(tree, searcher, GrepRequest(spanning)) == ("src/deep/b.py\n2:needle two\n3:three")
    counted = search("count", r"\n.*e", multiline=True)
    assert await grep(tree, searcher, GrepRequest(counted, "src/deep/b.py")) == "src/deep/b.py:1"


@SEARCHERS
async def test_types_glob_and_negation_narrow_the_files(tree: Desk, searcher: Searcher) -> None:
    files = FileSearch(base="", start="", shape="files_with_matches", pattern="needle", type="py")
    assert await grep(tree, searcher, GrepRequest(files)) == "src/.hidden/c.py\nsrc/deep/b.py"
    assert await grep(tree, searcher, GrepRequest(files, glob="src/deep/*")) == "src/deep/b.py"
    assert await grep(tree, searcher, GrepRequest(files, glob="!c.py")) == "src/deep/b.py"
    with pytest.raises(ToolError, match=r"type='pyt' is not known; use glob instead\. Did you mean py"):
        await grep(tree, searcher, GrepRequest(replace(files, type="pyt")))


@SEARCHERS
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(foo", "'(foo' cannot be searched for: "),
        ("a\\nb", "The pattern has a line break in it; set multiline=true to let a match span lines."),
        ("a\nb", "The pattern has a line break in it; set multiline=true to let a match span lines."),
        ("a\0b", "The pattern contains a character that cannot be searched for."),
        ("\ud800", "The pattern contains a character that cannot be searched for."),
    ],
)
async def test_a_pattern_that_is_wrong_is_answered_with_a_way_out(
    tree: Desk, searcher: Searcher, pattern: str, said: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await grep(tree, searcher, GrepRequest(search("content", pattern)))
    assert str(caught.value).startswith(said)


@SEARCHERS
async def test_patterns_that_look_like_options_are_patterns(desk: Desk, searcher: Searcher) -> None:
    desk.put("-e", "--files here\n")
    request = GrepRequest(search("content", "--files"), "-e")
    assert await grep(desk, searcher, request) == "-e\n1:--files here"
    assert await grep(desk, searcher, GrepRequest(search("count", "--pre=id"))) == (
        "No matches for '--pre=id' in the working directory."
    )


@SEARCHERS
async def test_pages_join_to_the_whole(desk: Desk, searcher: Searcher) -> None:
    for number in range(30):
        desk.put(f"d{number % 7}/f{number}.txt", "x\ny\nx\n")
    whole = by_file(await grep(desk, searcher, GrepRequest(search("content", "x"))))
    pages: list[tuple[str, str]] = []
    for offset in itertools.count(0, 7):
        text = await grep(desk, searcher, GrepRequest(search("content", "x")), (offset, 7))
        pages += by_file(text)
        last = text.split("\n")[-1]
        if not last.startswith("[…"):
            break
        assert last == f"[… {60 - offset - 7} more; go on with offset={offset + 7}]"
    assert (len(whole), pages) == (60, whole)
    assert await grep(desk, searcher, GrepRequest(search("content", "x")), (60, 7)) == (
        "There is nothing at offset=60; there are only 60 entries."
    )


@SEARCHERS
async def test_gits_own_excludes_count(
    desk: Desk, searcher: Searcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    desk.put(".git/info/exclude", "# comment\n.venv/\n/out\n")
    for name in (".venv/a.txt", "out/a.txt", "src/out/a.txt", "b.swp", "kept.swp"):
        desk.put(name, "needle")
    desk.put(".gitignore", "!kept.swp\n")
    every = ["b.swp", "kept.swp", "src/out/a.txt"]
    assert await glob(desk, searcher, "**/*.*") == [".gitignore", *every]
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.swp\n")
    assert await grep(desk, searcher, GrepRequest(search("files_with_matches", "needle"))) == (
        "kept.swp\nsrc/out/a.txt"
    )
    (home / "mine").write_text("src/\n")
    (home / ".gitconfig").write_text("[user]\n\tname = x\n[core]\n\texcludesFile = ~/mine\n")
    assert await glob(desk, searcher, "**/*.*") == [".gitignore", "b.swp", "kept.swp"]
    assert await glob(desk, searcher, ".venv/*") == [".venv/a.txt"]
    assert await desk.use(LS) == (
        ".git/\n.gitignore (10 bytes)\nb.swp (6 bytes)\nkept.swp (6 bytes)\n"
        "[left out by ignore files: .venv/, out/, src/]"
    )


@SEARCHERS
async def test_the_excludes_of_a_linked_worktree_are_those_of_its_repository(
    desk: Desk, searcher: Searcher, tmp_path: Path
) -> None:
    main = tmp_path / "main" / ".git"
    (main / "worktrees/one").mkdir(parents=True)
    (main / "info").mkdir()
    (main / "info/exclude").write_text("*.tmp\n")
    (main / "worktrees/one/commondir").write_text("../..\n")
    desk.put(".git", f"gitdir: {main}/worktrees/one\n")
    desk.write(a_tmp="x", b_txt="x")
    assert await glob(desk, searcher, "*") == [".git", "b.txt"] or await glob(desk, searcher, "*") == [
        "b.txt"
    ]
