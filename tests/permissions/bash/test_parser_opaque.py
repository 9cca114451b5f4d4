"""Which parts the parser calls opaque, and that it says so of no others."""

import pytest

from gencode.permissions.bash.parser import parse


@pytest.mark.parametrize(
    "text",
    [
        # the command word
        *("$x a", '"$x"', "${x}", "a$x b", "$(a) b", "`a`", "*", "[a] b", "{a,b}", "a? b", "<(a)", "x=1 $y"),
        # expansions
        *("a ${x:-b}", "a ${x-b}", "a ${x:=b}", "a ${x=b}", "a ${x:?b}", "a ${x:+b}", "a ${!x}", "a ${x@P}"),
        *(
            "a ${x[0]}",
            "a ${x[@]}",
            "a ${#x[@]}",
            "a ${x/b/c}",
            "a ${x#b}",
            "a ${x%%b}",
            "a ${x:1:2}",
            "a ${x^}",
        ),
        *("a ${x,,}", "a ${!x@}", "a ${@}", "a ${1}", "a ${10}", 'a "${x:-b}"', "a ${#}", "a ${!x*}"),
        *(
            'a $"b"',
            "a >(b)",
            "x=${y:-z}",
            "x=${y:-z} a",
            "a < ${x:-y}",
            "a <<< ${x:-y}",
            "a <<E\n${x:-y}\nE",
        ),
        # arithmetic
        *("a $((x))", "a $((1+x))", "a $(($x))", "a $((x[0]))", "a $[x]", "((x))", "((x=1))", "a $((0x1))"),
        *("for ((x=0;x<2;x++)); do a; done", "a $((`b`))", "a $((16#ff))", "a <<E\n$((x))\nE", "((1<(2)))"),
        # arrays
        *("x=(1 2)", "x+=(1)", "x[0]=1", "x[0]+=1 a", "declare x=(1)", "export x=(1)", "x=()", "x[$y]=1"),
        # redirections
        *("a {x}>b", "a {x}<b", "{x}>b a", "{ a; } {x}>b", "a < /dev/tcp/b/1", "a > /dev/udp/b/1", "a >&$x"),
        *(
            "a < /dev/t$x",
            "a < /dev/$x",
            "a <> /dev/tcp/b/1",
            "a < '/dev/tcp/b/1'",
            "a > ${x:-y}",
            "a {x[0]}>b",
        ),
        # the rest
        *(
            "a() { b; }",
            "function a { b; }",
            "a() (b)",
            "coproc a",
            "coproc A { b; }",
            "case ${x:-y} in z) a; esac",
        ),
        *(
            "[[ -v a ]]",
            "[[ -R a ]]",
            "[[ a -eq b ]]",
            "[[ a -ne 1 && b ]]",
            "[[ ! ( a -lt 1 ) ]]",
            "[[ 1 -le 2 ]]",
        ),
        *("[[ 1 -gt 2 ]]", "[[ 1 -ge 2 ]]", "[[ ${x:-y} ]]", "for x in ${y:-z}; do a; done"),
    ],
)
def test_a_part_is_opaque(text: str) -> None:
    assert [part for part in parse(text) if part.opaque] != []


@pytest.mark.parametrize(
    "text",
    [
        *("a $x", "a ${x}", "a ${#x}", "a $1 $? $# $$ $! $@ $* $- $_", 'a "$x"', "a $(b)", "a `b`", "a <(b)"),
        *("a * ? [b]", "a {b,c}", "a $((1+2))", "a $(( (1 << 4) % 3 ? 1 : 0, ~2 ^ 3 | 4 & 5 ))", "a $[1+2]"),
        *("((1))", "for ((;;)); do a; done", "for x in *; do a $x; done", "x=1", "x=$y a", "x=`a`"),
        *("[[ -n $x && $y == z* ]]", "[[ a < b ]]", "[[ -f a ]]", "[[ a -nt b ]]", "[[ $x =~ ^[0-9]+$ ]]"),
        *("case $x in a*) b;; esac", "a < b", "a > b", "a > $x", "a < $x", "a <<E\n$x $(b)\nE", "a <<< $x"),
        *("{ a; }", "(a)", "time a", "! a", "a 2>&1", "a > /dev/null", "a '${x:-y}' '$((x))'", "a \\${x:-y}"),
        *("a 'x'=1", "a x[0]=1", "a {x} > b", "a 2 < b", "test -v x", "f=1 g"),
    ],
)
def test_a_part_is_not_opaque(text: str) -> None:
    assert [part.opaque for part in parse(text) if part.opaque] == []


def test_only_the_part_that_holds_the_reason_is_opaque() -> None:
    parts = parse("a $(b ${x:-y}) | c > ${z:-w}")
    assert [(part.source, bool(part.opaque)) for part in parts] == [
        ("b ${x:-y}", True),
        ("a $(b ${x:-y})", False),
        ("> ${z:-w}", True),
        ("c > ${z:-w}", False),
    ]


def test_the_commands_of_opaque_parts_are_found_all_the_same() -> None:
    sources = [part.source for part in parse("f() { a ${x:-$(b)} $((y[$(c)])); }")]
    assert sources == ["f()", "b", "c", "a ${x:-$(b)} $((y[$(c)]))"]
