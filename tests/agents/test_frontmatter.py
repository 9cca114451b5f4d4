"""Front matter is split from the body and read within bounds."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.file_errors import recovered
from gencode.agents.frontmatter import FrontMatter, read_front_matter
from gencode.core.errors import UserMistake


def refusal(text: str) -> str:
    with pytest.raises(UserMistake) as caught:
        read_front_matter(text, "agents/x.md")
    return str(caught.value)


def fields(block: str) -> dict[str, object]:
    return read_front_matter(f"---\n{block}\n---\n", "x.md").fields


def test_fields_lines_and_body_are_told_apart():
    text = "---\nname: x\n\ntools:\n  - Read\n---\n\nDo this.\n\n---\nAnd that.\n"
    assert read_front_matter(text, "x.md") == FrontMatter(
        {"name": "x", "tools": ["Read"]}, {"name": 2, "tools": 4}, "Do this.\n\n---\nAnd that."
    )


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff---\nname: x\n---\nbody\n",
        "---\r\nname: x\r\n---\r\nbody\r\n",
        "\n\n---\nname: x\n---\nbody",
        "-----\nname: x\n---------- \nbody",
        "\n    ---\n    name: x\n    ---\n    body\n",
    ],
)
def test_harmless_oddities_of_the_fences_do_not_matter(text: str):
    read = read_front_matter(text, "x.md")
    assert (read.fields, read.body) == ({"name": "x"}, "body")


def test_the_pure_python_loader_reads_the_same(monkeypatch: pytest.MonkeyPatch):
    text = "---\nname: x\ndescription: Use when: it breaks\ntools: {allow: [Read, 'a b', 7]}\n---\nbody"
    with_c = read_front_matter(text, "x.md")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_front_matter(text, "x.md") == with_c


def test_values_keep_their_spelling_except_for_integers_and_three_words():
    block = "a: 1.10\nb: 2026-02-03\nc: yes\nd: 007\ne: 42\nf: true\ng: ~\nh: '42'\ni: 0x1F\nj: 1:30\nk:"
    assert fields(block) == {
        "a": "1.10",
        "b": "2026-02-03",
        "c": "yes",
        "d": "007",
        "e": 42,
        "f": True,
        "g": None,
        "h": "42",
        "i": "0x1F",
        "j": "1:30",
        "k": None,
    }


def test_a_number_with_very_many_digits_stays_a_text():
    assert fields("a: " + "9" * 5_000) == {"a": "9" * 5_000}


@pytest.mark.parametrize(
    ("block", "value"),
    [
        ("description: Use when: x", "Use when: x"),
        ("description: It's for: x", "It's for: x"),
        ("description: **Bold** words", "**Bold** words"),
        ("description: *", "*"),
        ("description: @someone", "@someone"),
        ("description: !Important words", "!Important words"),
        ("description: ends with:", "ends with:"),
        ("description: Use when: x\n  and also: y", "Use when: x and also: y"),
    ],
)
def test_a_plain_value_that_yaml_misreads_is_read_as_text_with_a_warning(block: str, value: str):
    read = read_front_matter(f"---\nname: x\n{block}\n---\n", "x.md")
    assert read.fields == {"name": "x", "description": value}
    assert read.repaired == (recovered("line 3 was read as if its value were in quotes", 3),)


def test_the_repair_leaves_block_texts_and_later_fields_alone():
    block = "description: Use when: x\nnotes: |\n  user: says: hello\n\n  end\ntools:\n  - *\nname: y"
    read = read_front_matter(f"---\n{block}\n---\n", "x.md")
    assert read.fields == {
        "description": "Use when: x",
        "notes": "user: says: hello\n\nend\n",
        "tools": ["*"],
        "name": "y",
    }
    assert read.lines["name"] == 9


DIALOGUE = """---
name: reviewer
description: Use it after a change. Examples:
<example>
Context: The user: "wrote" code.
user: "Check: this"
assistant: "I will: check"
user: "Thanks"
</example>
tools: Read, Grep
model: sonnet
---
body"""


def test_a_dialogue_at_the_beginning_of_lines_stays_in_its_description():
    read = read_front_matter(DIALOGUE, "x.md")
    assert (read.stage, sorted(read.fields), read.lines["tools"]) == (
        *("split", ["description", "model", "name", "tools"]),
        10,
    )
    assert read.fields["description"].endswith('user: "Thanks"\n</example>')
    assert read.fields["tools"] == "Read, Grep"
    assert [each.message for each in read.repaired] == [
        "the front matter is not YAML; it was cut at the names of its fields"
    ]


def test_what_says_twice_which_tools_there_are_is_never_guessed():
    assert "cannot be read" in refusal(DIALOGUE.replace("model: sonnet", "tools: '*'"))


def test_tabs_are_read_as_spaces():
    read = read_front_matter("---\nname: x\ntools:\n\t- Read\n\t- Grep\n---\n", "x.md")
    assert (read.fields["tools"], read.stage) == (["Read", "Grep"], "requoted")


def test_a_file_in_a_code_fence_is_taken_out_of_it():
    read = read_front_matter("```markdown\n---\nname: x\na: [\n  b]\n---\nbody\n```\n", "x.md")
    assert (read.fields, read.lines["name"], read.body) == ({"name": "x", "a": ["b"]}, 3, "body")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "# Just a page",
            "agents/x.md: it has no front matter (fields between two lines of ---), so it is no agent.",
        ),
        ("", "agents/x.md: it has no front matter (fields between two lines of ---), so it is no agent."),
        (
            "\n---\nname: x\n",
            "agents/x.md, line 2: the front matter is never closed; end it with a line of ---.",
        ),
        (
            "---\n- a\n---\n",
            "agents/x.md, line 2: the front matter must be fields such as `name: tester`.",
        ),
        ("---\nname: x\nname: y\n---\n", "agents/x.md, line 3: the field 'name' is given twice."),
        ("---\n? [a]\n: b\n---\n", "agents/x.md, line 2: a field's name must be a plain word."),
        (
            "---\na: 1\n--- b\n---\n",
            "agents/x.md, line 3: the front matter holds a second document.",
        ),
        (
            "---\nname: x\nb: !!python/name:os.system ''\n---\n",
            "agents/x.md, line 3: tags (!) are not allowed; put the text in quotes.",
        ),
        (
            "---\na: &a 1\n---\n",
            "agents/x.md, line 2: anchors and aliases (& and *) are not allowed; put the text in quotes.",
        ),
        (
            "---\n&a a: 1\n---\n",
            "agents/x.md, line 2: anchors and aliases (& and *) are not allowed; put the text in quotes.",
        ),
        (
            "---\n!!str a: 1\n---\n",
            "agents/x.md, line 2: tags (!) are not allowed; put the text in quotes.",
        ),
        (
            "---\na: 1\nb: *a\n---\n",
            "agents/x.md, line 3: anchors and aliases (& and *) are not allowed; put the text in quotes.",
        ),
        (
            "---\na: 'open\n---\n",
            "agents/x.md, line 2: the front matter cannot be read: found unexpected end of stream.",
        ),
        (
            "---\na: \x00\n---\n",
            "agents/x.md: the front matter cannot be read: it holds characters that YAML does not allow.",
        ),
        (
            "---\na: \ud800\n---\n",
            "agents/x.md: the front matter cannot be read: it holds characters that YAML does not allow.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place_and_the_reason(text: str, sentence: str):
    assert refusal(text) == sentence


def test_an_alias_bomb_is_refused_before_it_grows():
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20))
    assert "anchors and aliases" in refusal(f"---\nl0: &l0 boom\n{levels}\n---\n")


def test_deep_nesting_is_refused():
    assert "nested deeper than 8 levels" in refusal(f"---\na: {'[' * 5_000}\n---\n")


def test_a_front_matter_of_more_than_64_kib_is_refused():
    fits = f"---\na: {'x' * (64 * 1024 - 4)}\n---\n"
    assert len(read_front_matter(fits, "x.md").fields["a"]) == 64 * 1024 - 4
    assert "longer than 65,536 bytes" in refusal(fits.replace("x", "xx", 1))


def test_a_file_name_cannot_hide_anything_in_the_message():
    with pytest.raises(UserMistake) as caught:
        read_front_matter("", "a\x1b[31m\u202e.md")
    assert str(caught.value).startswith("a[31m.md: ")


@given(st.text() | st.text(st.sampled_from("ab:*&!-|>'\"[]{},#? \n\t%@`\\"), max_size=60))
def test_any_block_is_read_or_refused(block: str):
    try:
        read = read_front_matter(f"---\n{block}\n---\nbody", "x.md")
    except UserMistake as error:
        assert str(error).startswith("x.md")
    else:
        assert set(read.lines) == set(read.fields)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))))
def test_the_body_comes_back_as_it_was(body: str):
    assert read_front_matter(f"---\nname: x\n---\n{body}", "x.md").body == body
