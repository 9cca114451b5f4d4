"""The offline model's idea of definitions, ranks and results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.offline_search.code_blocks import CodeLine, split_blocks, symbol_of
from gencode.offline_search.query import query_of
from gencode.offline_search.ranking import MatchCounts, path_weight, rank_files
from gencode.offline_search.result_parser import GrepCounts, read_counts, read_lines, read_matches, read_paths


@pytest.mark.parametrize(
    ("line", "symbol"),
    [
        ("    async def bar(self):", "bar"),
        ("export default class Foo extends X {", "Foo"),
        ("pub(crate) fn walk<T>(x: T) -> R {", "walk"),
        ("impl<T> Display for Foo<T> {", "Foo"),
        ("func (c *Context) ClientIP() string {", "ClientIP"),
        ("static int evict(redisDb *db) {", "evict"),
        ("Status DBImpl::Recover(VersionEdit* edit) {", "DBImpl::Recover"),
        ("    public static int distance(CharSequence s, CharSequence t) {", "distance"),
        ("  onRequest (request, reply) {", "onRequest"),
        ("export const retry = (a, b) => {", "retry"),
        ("Reply.prototype.send = function (payload) {", "Reply.prototype.send"),
        ("    if (x) {", ""),
        ("struct paste_buffer {", "paste_buffer"),
        ("\tstruct paste_buffer *pb;", ""),
        ("\tstruct client *c = item->client, *other;", ""),
        ("static struct client *", ""),
        ("paste_free(struct paste_buffer *pb)", "paste_free"),
        ("static struct client *server_find(const char *name)", "server_find"),
        ("mod path_printer;", ""),
        ("pub struct Config<'a> {", "Config"),
        ("class Foo extends Bar implements Baz {", "Foo"),
        ("class LEVELDB_EXPORT Cache {", "Cache"),
        ("class Foo:", "Foo"),
        ("enum class Kind {", "Kind"),
        ("    } else if (x) {", ""),
        ("  describe('x', () => {", ""),
        ("    return foo(x)", ""),
        ("    A class will be made", ""),
        ("    the type of the value", ""),
        ("    type of", ""),
        ("type Duration int64", "Duration"),
        ("class Shop < Base", "Shop"),
        ("#define GUARD_H_", ""),
        ("#define MOST 3", "MOST"),
    ],
)
def test_what_a_line_defines(line: str, symbol: str) -> None:
    assert symbol_of(line) == symbol


@given(st.text(max_size=600))
def test_any_line_can_be_asked_for_its_symbol(line: str) -> None:
    assert symbol_of(line) in (
        "",
        *[line[a:b] for a in range(len(line)) for b in (a + len(symbol_of(line)),)],
    )


def test_a_comment_above_a_definition_belongs_to_it() -> None:
    lines = [
        CodeLine(1, "import x"),
        CodeLine(5, "// Retries a call."),
        CodeLine(6, "function again(call) {"),
        CodeLine(9, "  call()"),
    ]
    blocks = split_blocks(lines, 20)
    assert [
        (block.symbol, block.start, block.end, [line.number for line in block.lines]) for block in blocks
    ] == [
        ("", 1, 4, [1]),
        ("again", 6, 20, [5, 6, 9]),
    ]


def test_a_long_definition_is_cut_into_windows() -> None:
    lines = [CodeLine(1, "def long():"), CodeLine(30, "    near"), CodeLine(200, "    far")]
    assert [(block.symbol, block.inside, block.start) for block in split_blocks(lines, 300)] == [
        ("", "", 1),
        ("long", "", 1),
        ("", "long", 200),
    ]


def test_counts_are_read_with_what_was_cut_off() -> None:
    text = "./a.py:3\nb:c.py:12\n[… 1,200 more; go on with offset=2]\n[a note]"
    assert read_counts(text) == GrepCounts({"a.py": 3, "b:c.py": 12}, 1200, 2)
    assert read_counts("No matches for 'x' in .") == GrepCounts({})


def test_matches_and_lines_are_read_as_they_stand() -> None:
    assert read_matches("a.py\n1:y\n\na:b.py\n3:  x = 1:2\n9:", "a:b.py") == [
        CodeLine(3, "  x = 1:2"),
        CodeLine(9, ""),
    ]
    assert read_lines("7\t\tdef x():\n8\t\n[… more]") == [
        CodeLine(7, "\tdef x():"),
        CodeLine(8, ""),
    ]
    assert read_paths("a.py\nb c.py\n[… 3 more; go on with offset=2]") == (["a.py", "b c.py"], 3)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("src/cache.py", "tests/test_cache.py"),
        ("src/cache.py", "docs/cache.md"),
        ("src/cache.c", "vendor/cache.c"),
        ("src/cache.ts", "src/cache.d.ts"),
        ("src/cache.cc", "src/cache.h"),
        ("src/cache.js", "dist/cache.min.js"),
    ],
)
def test_tests_docs_and_foreign_code_stand_back(better: str, worse: str) -> None:
    query = query_of("Where is the cache flushed?")
    assert path_weight(better, query) > path_weight(worse, query)


def test_equal_files_are_ranked_by_path_whatever_the_order_they_came_in() -> None:
    query = query_of("cache")

    def ranked(paths: list[str]) -> list[str]:
        counts = dict.fromkeys(paths, 2)
        seen = MatchCounts((counts,), ({},), {}, dict.fromkeys(paths, 10), 9, (len(paths),), (0,))
        return [each.path for each in rank_files(query, seen)]

    assert ranked(["b.py", "a.py", "c.py"]) == ranked(["c.py", "b.py", "a.py"]) == ["a.py", "b.py", "c.py"]
