"""Markdown from HTML: what a person would see, whatever is wrong with the page."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.web.html import MOST_ATTRIBUTES, EndTag, StartTag, tokens
from gencode.web.html_to_markdown import AROUND, MOST_TEXT, Markdown, to_markdown

URL = "https://example.net/docs/page.html"


def text(page: str) -> str:
    return to_markdown(page, URL).text


def test_a_whole_page_becomes_markdown() -> None:
    page = """<!DOCTYPE html><html><head><title>One &amp;
      two</title><style>p {}</style><script>if (1 < 2) "<p>no</p>";</script></head><body>
    <nav><a href="/">Home</a></nav>
    <main><h1>Title <small>small</small></h1>
      <p>Some <b>bold </b>and <em>other</em> text with <a href="../x y?(a)">a <code>link</code></a>.
      <p>Second<br>line
      <hr><img src="i.png" alt="A picture"><img src="dot.gif">
    </main><footer>&copy; us</footer></body></html>"""
    assert to_markdown(page, URL) == Markdown(
        "One & two",
        "# Title small\n\n"
        "Some **bold** and *other* text with [a `link`](https://example.net/x%20y?%28a%29).\n\n"
        "Second\nline\n\n---\n\n![A picture](https://example.net/docs/i.png)\n\n---\n\n"
        f"{AROUND}\n\n[Home](https://example.net/)\n\n© us",
    )


def test_lists_are_nested_and_counted_even_if_nobody_closed_them() -> None:
    page = "<ul><li>one<li>two<ol start=3><li>three<li><p>four<p>more</ol><li>five</ul>after"
    assert text(page) == "- one\n- two\n  3. three\n  4. four\n\n     more\n- five\n\nafter"
    assert text("<li>a<li>b<dl><dt>Term<dd>Meaning<dt>Next<dd>Thing</dl>") == (
        "- a\n- b\n\n  Term\n  : Meaning\n\n  Next\n  : Thing"
    )
    assert text("<ul><li><input type=checkbox checked>done<li><input type=checkbox> not") == (
        "- [x] done\n- [ ] not"
    )


def test_quotes_stand_behind_their_sign() -> None:
    assert (
        text("<blockquote><p>a<blockquote>b</blockquote><p>c</blockquote>d") == "> a\n>\n> > b\n>\n> c\n\nd"
    )


def test_a_table_of_plain_cells_has_columns() -> None:
    page = (
        "<table><caption>All</caption><thead><tr><th>A<th>B</thead>"
        "<tr><td>1|2<td><code>x</code><br>y<tr><td><p>3</p><td></table>"
    )
    assert text(page) == "All\n\n| A | B |\n| --- | --- |\n| 1\\|2 | `x` y |\n| 3 |  |"


def test_a_table_that_only_arranges_the_page_is_written_row_by_row() -> None:
    page = (
        "<table><tr><td>1.<td><a href=/a>First</a><tr><td colspan=2><table><tr><td>x<td>y</table>"
        "<tr><td><p>two</p><p>paragraphs</p></table>"
    )
    assert text(page) == (
        "1. [First](https://example.net/a)\n\n| x | y |\n| --- | --- |\n\ntwo\n\nparagraphs"
    )


def test_an_end_tag_does_not_reach_out_of_its_cell() -> None:
    assert text("<div><table><tr><td>a</div></td><td>b</td></tr></table>c</div>") == (
        "| a | b |\n| --- | --- |\n\nc"
    )
    assert text("<table><tr><td>a<table></td></table>b<td>c</table>") == "a\n\nb\n\nc"


def test_code_keeps_every_space() -> None:
    page = '<pre class="x language-python"><code>\ndef f():\n    return "&lt;b&gt;" <b>#</b>\n\n</code></pre>'
    assert text(page) == '```python\ndef f():\n    return "<b>" #\n```'
    assert text("<ul><li><pre>a\n  b</pre>c") == "- ```\n  a\n    b\n  ```\n\n  c"
    assert text("<pre>a ``` b</pre>") == "````\na ``` b\n````"
    assert text("<pre><div>one</div><div>two</div>three<br>four</pre>") == "```\none\ntwo\nthree\nfour\n```"
    assert text("say <code>a`b</code>, <kbd>x</kbd>") == "say `` a`b ``, `x`"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>HIDDEN</script>",
        "<SCRIPT type=x>HIDDEN</ScRiPt >",
        "<script><!-- <script> HIDDEN </script> HIDDEN --></script>",
        "<script>'<!--' HIDDEN</script>",
        "<style>HIDDEN</style>",
        "<!-- HIDDEN > -->",
        "<!HIDDEN>",
        "<?php HIDDEN ?>",
        "</ HIDDEN>",
        "<template><p>HIDDEN</template>",
        "<svg><title>HIDDEN</title><g/><text>HIDDEN</text></svg>",
        "<p hidden>HIDDEN</p>",
        "<div aria-hidden=TRUE><p>HIDDEN<p>HIDDEN</div>",
        '<span style="color:red; DISPLAY : none">HIDDEN <b>HIDDEN</b></span>',
        '<span style="visibility:hidden">HIDDEN</span>',
        '<span style="font-size:0px">HIDDEN</span>',
        "<dialog>HIDDEN</dialog>",
        "<select><option>HIDDEN<option>HIDDEN</select>",
        "<textarea>HIDDEN</textarea>",
        "<iframe>HIDDEN</iframe><noembed>HIDDEN</noembed>",
        "<a title=HIDDEN data-x='HIDDEN'></a>",
        '<img alt="" src=HIDDEN>',
    ],
)
def test_what_nobody_sees_is_left_out(hidden: str) -> None:
    assert text(f"<p>before</p>{hidden}<p>after</p>") == "before\n\nafter"


def test_what_only_looks_hidden_is_shown() -> None:
    assert text('<p style="font-size:0.9em">a<p style="opacity:0">b<dialog open>c</dialog>') == "a\n\nb\n\nc"


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("https://a.example/x", "[t](https://a.example/x)"),
        ("//a.example/x", "[t](https://a.example/x)"),
        ("?q=1", "[t](https://example.net/docs/page.html?q=1)"),
        (" x\ny ", "[t](https://example.net/docs/xy)"),
        ("mailto:a@b.example", "[t](mailto:a@b.example)"),
        *((link, "t") for link in ("#part", "javascript:alert(1)", "data:text/html,x", "//[", "")),
        ("/" + "x" * 3000, "t"),
        ("a)[b](javascript:x", "[t](https://example.net/docs/a%29%5Bb%5D%28javascript:x)"),
    ],
)
def test_links_are_absolute_or_just_text(link: str, shown: str) -> None:
    assert text(f'<a href="{link}">t</a>') == shown


def test_the_base_of_a_page_counts_for_its_links() -> None:
    assert text("<head><base href=/other/></head><a href=x>t</a>") == "[t](https://example.net/other/x)"


def test_a_link_around_several_blocks_is_one_link() -> None:
    page = "<a href=/card><h3>Card</h3><p>with text</p></a><a href=/a>a<a href=/b>b</a>"
    assert text(page) == (
        "### [Card](https://example.net/card)\n\nwith text\n\n[a](https://example.net/a)[b](https://example.net/b)"
    )
    assert text("<a href=https://a.example/>https://a.example/</a>") == "https://a.example/"


def test_emphasis_ends_with_its_paragraph_and_begins_again_in_the_next() -> None:
    assert (
        text("<b>one<p>two</p></b>three <i> four<br></i>five") == "**one**\n\n**two**\n\nthree *four*\nfive"
    )
    assert text("<b><strong>x</strong></b> <b> </b>y") == "**x** y"


def test_broken_pages_say_what_they_can() -> None:
    assert (
        text("a < b && c <3 &unknown; &amp &#x41; &#0; &#55296;")
        == "a < b && c <3 &unknown; & A \ufffd \ufffd"
    )
    assert text("<p>text <a href='never closed>rest of the page") == "text"
    assert text("text <b") == "text"
    assert text("</p></div></br>a</table>b") == "ab"
    assert text("a\0b\r\nc\rd") == "ab c d"
    assert text("<h1>one<h2>two") == "# one\n\n## two"
    assert text("<plaintext><b>&amp;") == "<b>&amp;"
    assert text("&#" + "9" * 5000 + ";x") == "\ufffdx"


def test_tokens_are_texts_and_tags() -> None:
    assert list(tokens("<A HREF=x href=y b>t&lt;</A\n><br/>")) == [
        StartTag("a", {"href": "x", "b": ""}),
        "t<",
        EndTag("a"),
        StartTag("br", {}, closed=True),
    ]
    assert list(tokens("<title>a<b>&amp;</title><xmp>&amp;</xmp><!--><p>")) == [
        StartTag("title", {}),
        "a<b>&",
        EndTag("title"),
        StartTag("xmp", {}),
        "&amp;",
        EndTag("xmp"),
        StartTag("p", {}),
    ]


def test_of_a_tag_with_a_million_attributes_a_hundred_are_kept() -> None:
    (tag,) = tokens(f"<a {' '.join(f'a{number}' for number in range(1_000_000))}>")
    assert tag == StartTag("a", {f"a{number}": "" for number in range(MOST_ATTRIBUTES)})


DEEP = 20_000


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<a ",
        "<a b='",
        "</p>",
        "<![",
        "<?",
        "<",
        "&",
        "&#9",
        "<b>",
        "<div>",
        "<p hidden>",
        "<ul><li>",
        "<blockquote>",
        "<table><tr><td>",
        "<td>",
        "<table></div><td>",
        "<b><p></b></p>",
        "<script>",
        "<script><!--<script>",
        "<title>",
        "<pre>x",
        "<a href=x>y",
        "<i><h1>",
        "<svg><g/>",
    ],
)
def test_no_page_is_deep_enough_to_fail(piece: str) -> None:
    found = to_markdown(piece * DEEP + "end", URL)
    assert found.whole
    assert len(found.text) < 200 * DEEP


def test_a_page_that_multiplies_itself_is_cut() -> None:
    found = to_markdown("<a href=x>y " * 20_000, "https://example.net/" + "d/" * 900)
    assert (found.whole, MOST_TEXT <= len(found.text) < MOST_TEXT + 1_000_000) == (False, True)


def test_whoever_waits_can_stop_it() -> None:
    looked: list[int] = []

    def third_time() -> bool:
        looked.append(1)
        return len(looked) == 3

    found = to_markdown("<p>a" * 10_000, URL, third_time)
    assert (found.whole, found.text.count("a"), len(looked)) == (False, 256, 3)


TAGS = [
    "p",
    "div",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "tr",
    "td",
    "th",
    "tbody",
    "caption",
    "pre",
    "b",
    "code",
    "a href=/x",
    "h1",
    "h2",
    "blockquote",
    "main",
    "article",
    "br",
    "hr",
    "img alt=i",
    "svg",
    "span hidden",
    "base href=//[",
    "button",
    "input type=checkbox",
    "dialog",
    "option",
    "summary",
]
WHOLE = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in TAGS]),
    st.sampled_from([f"</{tag.split()[0]}>" for tag in TAGS]),
    st.sampled_from(["<script>SECRET</script>", "<style>SECRET</style>", "<!--SECRET-->", "<?SECRET>"]),
    st.text(st.characters(exclude_characters="<>"), max_size=8),
)
BROKEN = st.sampled_from(
    [
        "<!--",
        "-->",
        "<",
        ">",
        "</",
        '<a b="',
        "'",
        "&amp",
        "&#x1F600;",
        "<![CDATA[",
        "<title>",
        "<xmp>",
        "<script>",
    ]
)


@given(st.lists(WHOLE, max_size=60).map("".join))
def test_no_script_style_or_comment_is_shown(page: str) -> None:
    found = to_markdown(page, URL)
    assert (found.whole, "SECRET" in found.text) == (True, False)


@given(st.lists(WHOLE | BROKEN, max_size=60).map("".join))
def test_no_page_raises(page: str) -> None:
    assert to_markdown(page, URL).whole


@given(st.text(alphabet="<>/!-='\"& aAbpt\n", max_size=200))
def test_there_is_never_more_text_than_page(page: str) -> None:
    assert sum(len(token) for token in tokens(page) if isinstance(token, str)) <= len(page)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["p", "b", "li", "div", "i", "td", "h2", "pre", "main"]), st.integers(0, 99)
        ),
        max_size=20,
    )
)
def test_every_visible_word_comes_out_once(parts: list[tuple[str, int]]) -> None:
    page = "".join(f"<{tag}>word{number}</{tag}> " for tag, number in parts)
    found = re.findall(r"word\d+", text(page))
    assert sorted(found) == sorted(f"word{number}" for _, number in parts)
