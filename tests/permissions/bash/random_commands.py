"""Random command lines: whole ones put together from all that bash can nest, and spoiled ones.

Programs are named `ok…` and `no…`. Loops end after a few rounds, so that every line can really be run.
"""

from hypothesis import strategies as st

PROGRAMS = st.sampled_from(["ok1", "ok2", "ok3", "no1", "no2", "'ok4'", 'o"k"5', "\\ok6", "$'\\x6fk7'"])

WORDS = st.sampled_from(
    [
        *("a", "-b", "--c=d", "./e", "'f g'", '"h i"', "j\\ k", "''", '""', "$'l\\tm'", "n#o", "~", "~/p"),
        *("$x", '"$x"', "${x}", "${#x}", '"${x:-a b}"', "${x:-'}'}", "$1", "$?", "$$", '"$@"', "$", '"$"'),
        *("*", "[q]", "r?", "'*'", "\\*", "[", "]", "{s,t}", "{1..2}", "{}", "{u}", "'{v,w}'", "{x},y}"),
        *("$((1+2))", "$((x))", "$[3]", "!", "if", "then", "done", "in", "}", "2", "x=1", "é", ";'", "\\;"),
        *("'$(ok8)'", '"\\$(ok8)"', "\\`ok8\\`", "'<(ok8)'", "\\\n", "a\\\nb", "'a\nb'", '"a\nb"', "`ok9`"),
    ]
)
REDIRECTIONS = st.sampled_from(
    [
        *("> out", ">>out", "2>&1", "2> out", ">| out", "&> out", ">& out", "<> out", ">&-", "<&-", "< in"),
        *("> /dev/null", "<<< a", '<<< "$(ok8)"', "> 'a b'", "{v}> out", "2>out", "< <(ok8)", "> >(ok9)"),
    ]
)
ASSIGNMENTS = st.sampled_from(["x=1", "x=", "y+=a", "x=$(ok8)", 'x="a b"', "x='$(ok8)'", "x[0]=1", "x={a,b}"])


def simple(assignments: list[str], program: str, words: list[str]) -> str:
    return " ".join([*assignments, program, *words])


SIMPLE = st.builds(
    simple,
    st.lists(ASSIGNMENTS, max_size=1),
    PROGRAMS,
    st.lists(st.one_of(WORDS, WORDS, REDIRECTIONS), max_size=3),
)

AROUND_ONE = st.sampled_from(
    [
        *(
            "ok1 $({})",
            'ok1 "$({})"',
            "ok1 `{}`",
            'ok1 "a`{}`b"',
            "ok1 <({})",
            "ok1 >({})",
            "x=$({})",
            "$({})",
        ),
        *(
            "({})",
            "{{ {}; }}",
            "{{\n{}\n}}",
            "! {}",
            "time {}",
            "time -p {}",
            "{} &",
            "{}\n",
            "\n{}",
            "{} #c",
        ),
        *("ok1 ${{x:-$({})}}", 'ok1 "${{x:-$({})}}"', "ok1 $((1+$({})))", "ok1 > $({})", "x=(a $({}))"),
        *("ok1 <<A\n$({})\nA\n", "ok1 <<'A'\n{}\nA\n", "ok1 <<-A\n\t`{}`\n\tA\n", '"$(cat <<A\n$({})\nA\n)"'),
        *("while no1; do {}; done", "until ok1; do {}; done", "for x in a b; do {}; done", "[[ -n $({}) ]]"),
        *("while ok1; do {}; break; done", "for ((;0;)); do {}; done", "for x in $({}); do ok1; done"),
        *("case a in a) {};; esac", "case $({}) in *) ok1;; esac", "case a in $({})) ok1;; *) ok2; esac"),
        *("f() {{ {}; }}; f", "function f {{ {}; }}; f", "f() ({}); f", "coproc {{ {}; }}; wait", "ok1 '{}'"),
        *("if {}; then ok1; else ok2; fi", "if no1; then ok1; elif ok2; then {}; fi", "ok1 {{a,$({})}}"),
        *("$(case a in a) {};; esac)", "ok1 $( ({}) )", "select x in a; do {}; break; done", "{} > out"),
    ]
)
AROUND_TWO = st.sampled_from(
    [
        "{}; {}",
        "{} && {}",
        "{} || {}",
        "{} | {}",
        "{} |& {}",
        "{}\n{}",
        "{} & {}",
        "{} &&\n{}",
        "{};{}",
        "{} \\\n{}",
    ]
)


def filled(template: str, *texts: str) -> str:
    return template.format(*texts)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """One more construct around what there is."""
    around_one = st.builds(filled, AROUND_ONE, inner)
    around_two = st.builds(filled, AROUND_TWO, inner, inner)
    return st.one_of(around_one, around_one, around_two)


WHOLE_COMMANDS = st.recursive(SIMPLE, nested, max_leaves=6)

FRAGMENTS = st.sampled_from(
    [
        *" \t\n;&|()<>{}[]$`'\"\\#=!*?~,-+:0a",
        *(
            "$(",
            "${",
            "$((",
            "))",
            "<<A\n",
            "\nA\n",
            "<(",
            ">(",
            "&>",
            ">&",
            "2>",
            "[[ ",
            " ]]",
            ";;",
            "esac",
        ),
        *("if ", "then ", "fi", "do ", "done", "case a in ", "f() ", "function f ", "coproc ", "time ", "! "),
        *(
            "\\\n",
            "$'",
            '$"',
            "\\'",
            '\\"',
            "\\`",
            "\\$",
            "{a,b}",
            "a=(",
            "a[0]=",
            "'$(ok8)'",
            "ok9",
            " ok9 ",
        ),
    ]
)


@st.composite
def spoiled(draw: st.DrawFn, commands: st.SearchStrategy[str]) -> str:
    """A command line with something put in where it may not belong, or something left out."""
    text = draw(commands)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        left_out = draw(st.sampled_from([0, 0, 1, 2, 5]))
        text = text[:at] + draw(st.one_of(FRAGMENTS, st.just(""))) + text[at + left_out :]
    return text


FRAGMENT_SOUP = st.lists(st.one_of(FRAGMENTS, PROGRAMS, WORDS), min_size=1, max_size=12).map("".join)
