"""Which commands only read, and why others may not (git has a file of its own)."""

import pytest

from gencode.permissions.bash.parts import ShellWord
from gencode.permissions.bash.readonly import harmless_assignment, not_read_only, safe_name
from gencode.permissions.bash.readonly_tables import ANY_ARGUMENTS
from tests.permissions.bash.spelled import error_text, refusal

READS = r"""
cat "$file" *.txt $(ls) a{b
/bin/cat x
/usr/bin/wc -l -- x
'grep' -rn "TODO" src
\head -3 x
echo * ? [a-z] $x "$@"
cd "$dir"
exit 3
: $x

find
find .
find a b -name '*.md' -newer README.md
find -L . src ./lib* -type f
find . -name -delete
find . -name '-exec' -print
find . -mtime -7 -size -10k -perm -u+x
find . \( -name a -o -name b \) , ! -empty -prune -print0
find . '(' -not -type d ')' -a -printf '%p\n'
find ~/src -maxdepth 1 -ls
find . -name test*.py
find --version
find "-H" x

rg
rg TODO
rg -n TODO src
rg --count TODO src
rg -ine TODO -g '*.py' -g!x -A3 -C 2 -- -x --pre=x
rg -e --pre=cat src
rg --regexp=--pre=cat
rg --sort path --color=never TODO ./*.c
rg -uuu. TODO -j4 -tpy -Trust
rg -f patterns.txt -

sort
sort -rn sizes.txt
sort -rnk2 -t, a
sort -k 2,2n --key=3 --parallel 2 a b
sort -t -o x
sort -- -o x
sort -mu a ./*.txt
sort --check --debug -

uniq
uniq -c
uniq in.txt
uniq -cdf2 -w 3 in.txt
uniq --skip-fields=1 --check-chars 4 -
uniq -- in.txt

sed -n 3p
sed -n 3p setup.cfg other
sed -n '1,3p' a
sed -n '$p' a
sed -n '1,$p' ./*.txt
sed -n \$,2p a

date
date -u +%F
date +%F -u
date '+%Y %m'
date -Iseconds
date -uIs
date -I -R
date --iso-8601 --utc
date --iso-8601=ns
date --rfc-3339=date
date --rfc-3339 date
date -d '-1 day' +%s
date -ud yesterday
date --date=now --date tomorrow
date -- +%F

printf hi
printf '%s\n' "$x" $y *
printf '%d%% %5.2f\n' 1 2
printf '%b' -n

test -f x
test ! -d x
test "$x" = y
test ! "$x" != "a$y"
test '!' = x
test -n = x
[ -d src ]
[ -n "$x" ]
[ -z "" ]
[ ! -e a"$b" ]
[ "$a" -ge 3 ]
[ a -nt b ]
[ ! a == b ]
/usr/bin/[ -f x ]
[ "$*" = x ]

read line
read -r a b_2 _c

file x
file -bi -L -h x y
file --brief --mime-type ./*
file -- -f

jq .
jq -c '.deps' package.json
jq -rcesnSMCaj . a b
jq --arg a b --argjson c 1 '.[$a]' ./*.json
jq --indent 2 --tab --sort-keys . x
jq 'input_filename' a

base64
base64 -d x
base64 -D -i -w0 x
base64 -w 76 --decode --ignore-garbage --wrap=0 --wrap 0 x

command -v ls
command -V ls cat
"""


@pytest.mark.parametrize("command", list(filter(None, READS.splitlines())))
def test_it_only_reads(command: str) -> None:
    assert refusal(command) == ""


@pytest.mark.parametrize("name", sorted(ANY_ARGUMENTS))
def test_the_first_set_takes_any_arguments(name: str) -> None:
    assert refusal(name) == ""
    if name != "arch":
        assert refusal(f'{name} -x --long "$y" *') == ""
        assert refusal(f"/usr/bin/{name} -o x", behind_xargs=True) == ""
    assert refusal(f"{name} {{a,b}}") != ""


@pytest.mark.parametrize(
    "command",
    [
        *("find .", "rg x", "sort", "uniq", "sed -n 3p", "date", "printf x", "test -f x", "[ -f x ]"),
        *("read x", "file x", "jq .", "base64", "command -v x", "git status"),
    ],
)
def test_behind_xargs_the_second_set_may_do_more(command: str) -> None:
    assert refusal(command, behind_xargs=True) != ""


@pytest.mark.parametrize("command", ["find .", "rg x", "sort", "[ -f x ]", "cat x"])
def test_a_cd_matters_to_none_but_git(command: str) -> None:
    assert refusal(command) == ""


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sort -rno x y", "sort -o is not among the options that only read"),
        ("find . -delete", "find -delete is not among the options that only read"),
        ("rg TODO *.c", "*.c could turn into an option"),
        ("rg TODO $x", "the value of $x is not known"),
        ("uniq a b", "uniq writes its second operand"),
        ("make test", "make may change files"),
        ("./cat x", "./cat is not in /bin or /usr/bin"),
        ("$x y", "$x can be any command"),
        ("cat {a,b}", "the braces of {a,b} can turn into any words"),
        ("date 0101", "date 0101 may set the clock"),
        ("jq env", "jq env may print the environment"),
        ("read PATH", "read sets PATH, which is not known to be harmless"),
    ],
)
def test_the_reason_is_a_sentence_for_people(command: str, reason: str) -> None:
    assert refusal(command) == reason


def test_no_words_are_no_command() -> None:
    assert not_read_only((), behind_xargs=False) == "there is no command"


def test_only_the_words_count_and_not_what_holds_them() -> None:
    words = error_text("sort -rn x")
    assert not_read_only(list(words), behind_xargs=False) == ""


NO_VALUE = ShellWord((), "")


@pytest.mark.parametrize(
    ("name", "safe", "harmless"),
    [
        ("LANG", True, True),
        ("LC_ALL", True, True),
        ("TZ", True, True),
        ("PYTHONUNBUFFERED", True, True),
        ("x", False, True),
        ("_", False, True),
        ("line_2", False, True),
        ("PATH", False, False),
        ("IFS", False, False),
        ("LANGUAGE", False, False),
        ("Tz", False, False),
        ("xY", False, False),
        ("http_proxy", False, False),
        ("_proxy", False, False),
        ("proxy", False, True),
        ("histchars", False, False),
        ("auto_resume", False, False),
        ("2x", False, False),
        ("x\n", False, False),
        ("ä", False, False),
        ("", False, False),
    ],
)
def test_names_of_variables(name: str, safe: bool, harmless: bool) -> None:
    assert (safe_name(name), harmless_assignment(name, NO_VALUE)) == (safe, harmless)
