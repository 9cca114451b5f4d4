"""Read-only commands to run for real: by hand for what takes free arguments, from the tables for the rest."""

from collections.abc import Iterator, Mapping

from gencode.permissions.bash import readonly_tables
from gencode.permissions.bash.options import OptionTable

FIRST_SET = r"""
cat a.py -o
cat -- -o *.txt "$HOME" $(ls) <(echo x)
head -n 2 a.py b.txt
head -c5 < a.py
tail -n +2 a.py
tail -c 5 *.py
wc -lwc a.py
nl -ba a.py
tac a.py
cat a.py | tac
rev b.txt
cut -d' ' -f1 --output-delimiter=, sizes.txt
paste -sd, sizes.txt b.txt
tr -d a < b.txt
fold -w 5 a.py
expand -t2 b.txt
unexpand -a b.txt
fmt -w 20 b.txt
column -t sizes.txt
comm --output-delimiter=x a.py b.txt
cmp -l a.py b.txt
join sizes.txt sizes.txt
od -c a.py
hexdump -C a.py
strings -n 3 a.py
ls -laR --color=always .
ls -o
ls -i *
stat -c %n a.py link
du -sh . --exclude=x
df -h . --output
readlink -f link dangling
realpath link nowhere
basename -a /x/a.py b.txt
dirname a/b/c
pwd -P
echo -n $x "a" * -o stolen
true -o stolen
false
: > /dev/null
seq 3
sleep 0
uname -a
whoami
id root
groups
nproc --all
uptime
free -m
arch
which ls -a
type -a ls cat
cksum a.py
md5sum a.py
sha1sum a.py
sha256sum --tag a.py
sha512sum a.py
b2sum a.py
sum a.py
diff -ru a.py b.txt
diff -r src src
grep -rn TODO . --include='*.py'
egrep -o 'T.' a.py
fgrep -f sizes.txt sizes.txt
expr 1 + 1
cd src
cd -P "$HOME"
exit 3
return 0
for i in 1 2; do break; done
for i in 1 2; do continue; done
/bin/cat a.py
"""

BY_HAND = r"""
find . src -type f -newer a.py -o \( -name '*.c' ! -empty \) , -print
find -L . -name -delete
find -H link -P -maxdepth 1
find ./* -name '-exec' -ls
rg -e --pre=thief .
rg -ne TODO -g '*.py' -- src
rg -uuu. --files --sort path
sort -rnk2 -t, sizes.txt ./*.txt
sort -t -o stolen
sort -- -o
uniq -cf 1 sizes.txt
uniq -- -o
sed -n 1p a.py
sed -n '1,2p' a.py b.txt
sed -n '2,$p' ./*.txt
sed -n '$p' link
date
date -u +%F
date +%F -R
date -d '-1 day' +%s
date -uIseconds
printf hi
printf '%s %d\n' "$x" 3 *
printf '%b' '\x41' stolen
test -e a.py
test ! -f nowhere
test a.py -nt b.txt
test "$HOME" = x
[ -d src ]
[ ! "$x" == y ]
[ -n "$(ls)" ]
[ 3 -ge 2 ]
[ a.py -ef link ]
read -r first second < b.txt
read line < b.txt
cat b.txt | while read -r line; do echo "$line"; done
file -bi a.py link src
file -- -o
jq . data.json
jq -r --arg a deps '.[$a]' data.json
jq -n --argjson a 1 '$a'
jq 'input_filename' ./*.json
base64 a.py
base64 -d coded.txt
command -v ls
command -V ls cat
git --version
git --no-pager log
git -P log --oneline -5
git log -n 2 -- --output=stolen
git log -L 1,2:a.py
git log -S TODO -G'a b'
git show HEAD:a.py :/one
git show 'HEAD@{0}' -s --format=%B
git diff HEAD~1 -- ./*.txt
git diff --stat -- --output=stolen -o
git blame -L 1,3 a.py
git cat-file -p HEAD
git cat-file -t HEAD:src
git rev-list --count --left-right main...wip
git ls-files -mo --exclude-standard
git ls-tree -rl HEAD src
git merge-base main wip
git describe --tags --always --abbrev=0 --match 'v*'
git shortlog -sne HEAD
git rev-parse --show-toplevel --abbrev-ref HEAD
git branch
git branch -avv --no-color
git branch -r --verbose
git branch --all --remotes
git branch --show-current
git branch --list 'w*' main
git branch -l new
git tag
git tag -l 'v*' new
git tag --list
git remote
git remote -v
git remote --verbose
git stash list
git worktree list
git reflog
git reflog show main HEAD
"""

SECOND_SET = r"""
git grep TODO
git grep -n -i TODO -- *.py
git grep -e TODO --and -e one --cached
git grep -c --threads=1 TODO HEAD -- src
git config --get user.name
git config --get remote.origin.url
git show-ref --heads --tags
git show-ref --hash=7 main
git for-each-ref --sort=-committerdate --format='%(refname:short) %(contents)' refs/heads
git branch --contains HEAD --sort=-committerdate
git branch --merged main -vv
git branch --points-at HEAD --format='%(refname)'
git tag --sort=-creatordate
git check-ignore -v -- x.log --output=stolen
git count-objects -vH
git remote get-url origin
git merge-base --is-ancestor main HEAD
git log -- *.py
git diff HEAD -- *
git -C src status
git -C src log --oneline -2
python3 --version
make --version
git --version
ps aux
ps -ef --forest
ps -eo pid,ppid,cmd --sort=-%cpu
ps -aux
tree -aL 2 .
tree -I '*.py' -d -- src
tree --noreport ./*
awk '{print $1}' a.py b.txt
awk -F: -v 'a=1' 'NR==a,NR==2 {s += $1} END {print s}' ./*.txt
awk '$1 > 9' sizes.txt
awk '/TODO/ || /one/ {printf "%s\n", FILENAME}' a.py
sed -n '/TODO/p' a.py
sed -n '/im/,/def/p;$p' a.py ./*.txt
sed -n '1~2p; /x/,+2p' a.py
sed -n '/a\/b/!p' a.py
find . -type f -exec grep -l TODO {} \;
find . -name '*.py' -exec wc -l -- {} +
find . -exec cat {} -o stolen \;
echo {a,b}.py -{o,O}stolen
for i in {1..3} {c..a}; do echo $i; done
cat {a.py,b.txt} *.{py,txt}
sort -- *
sort -rn -- *.txt
file -- *
rg TODO -- *
tar tf files.tar
tar -tvf files.tar a.py
tar tzvf files.tgz
tar --list --file=files.tar
unzip -l files.zip
zcat files.gz
zcat ./*.gz
xxd a.py
xxd -l 16 -g 1 a.py
xxd -p -- a.py
ls | tee /dev/null
V=$(cat b.txt); echo $V
FILE=$(ls | head -1) && cat "$FILE"
hostname
"""
"""What the second edition of the specification adds."""

RG_VALUES = {
    **dict.fromkeys(["e", "regexp", "r", "replace"], "TODO"),
    **dict.fromkeys(["f", "file"], "sizes.txt"),
    **dict.fromkeys(["g", "glob", "iglob"], "*.py"),
    **dict.fromkeys(["t", "T", "type", "type-not"], "py"),
    **dict.fromkeys(["E", "encoding"], "utf8"),
    **dict.fromkeys(["sort", "sortr"], "path"),
    "color": "always",
}
FIND_VALUES = {
    **dict.fromkeys(["-newer", "-anewer", "-cnewer", "-samefile"], "a.py"),
    **dict.fromkeys(["-type", "-xtype"], "f"),
    **dict.fromkeys(["-user", "-group"], "root"),
    **dict.fromkeys(["-mtime", "-size", "-mmin"], "-3"),
    "-printf": "%p %s\n",
    "-regextype": "egrep",
    "-perm": "-u+x",
}
GIT_VALUES = {
    **dict.fromkeys(["since", "until", "after", "before"], "2020-01-01"),
    **dict.fromkeys(["pretty", "format"], "%h %an %s"),
    "date": "iso",
    "diff-filter": "AM",
    "color": "always",
    "word-diff": "plain",
    "porcelain": "v2",
    "decorate": "full",
    "ignored": "matching",
    "untracked-files": "all",
}
GIT_OPERANDS = {
    "ls-files": "src",
    "ls-tree": "HEAD",
    "merge-base": "main wip",
    "blame": "a.py",
    "cat-file": "HEAD",
    "describe": "HEAD",
    "status": "",
    "diff": "",
}


def from_table(command: str, table: OptionTable, operands: str, values: Mapping[str, str]) -> Iterator[str]:
    """Each option of a table once in each of its spellings."""
    for letter in sorted(table.flags | table.optional):
        yield f"{command} -{letter} {operands}"
    for letter in sorted(table.valued):
        value = values.get(letter, "1")
        yield f"{command} -{letter} '{value}' {operands}"
        yield f"{command} -{letter}'{value}' {operands}"
    for name in sorted(table.long | table.long_optional):
        yield f"{command} --{name} {operands}"
    for name in sorted(table.long_valued):
        value = values.get(name, "1")
        yield f"{command} --{name} '{value}' {operands}"
    for name in sorted(table.long_valued | table.long_optional):
        yield f"{command} --{name}='{values.get(name, '1')}' {operands}"


def find_commands() -> Iterator[str]:
    """Each word of an expression once."""
    for word in sorted(readonly_tables.FIND_VALUED):
        yield f"find . {word} '{FIND_VALUES.get(word, '1')}'"
    for word in sorted(readonly_tables.FIND_PLAIN - {"(", ")", "!", ","}):
        yield f"find {word} src" if word in readonly_tables.FIND_BEFORE_PATHS else f"find . {word}"


def git_commands(subcommand: str) -> Iterator[str]:
    """Each option once for one of the subcommands that only read."""
    operands = GIT_OPERANDS.get(subcommand, "HEAD")
    shorts = [f"-{letter}" for letter in sorted(readonly_tables.GIT_CLUSTER)]
    for option in [*shorts, "-2", "-n 2", "-n2", "-U1", "-Smain", "-G main", "-L 1,2:a.py", "-uno"]:
        yield f"git {subcommand} {option} {operands}"
    dirty = {"dirty"} if subcommand == "describe" else set[str]()
    for name in sorted((readonly_tables.GIT_LONG | readonly_tables.GIT_LONG_VALUED) - dirty):
        yield f"git {subcommand} --{name} {operands}"
    for name in sorted(readonly_tables.GIT_LONG_VALUED - dirty):
        yield f"git {subcommand} --{name}='{GIT_VALUES.get(name, '1')}' {operands} --"


def corpus() -> dict[str, list[str]]:
    """Every command, by what it is about."""
    groups: dict[str, list[str]] = {
        "the first set": list(FIRST_SET.strip().splitlines()),
        "the second set": list(SECOND_SET.strip().splitlines()),
        "by hand": list(BY_HAND.strip().splitlines()),
        "find": list(find_commands()),
        "rg": list(from_table("rg", readonly_tables.RG, "TODO .", RG_VALUES)),
        "sort": list(
            from_table("sort", readonly_tables.SORT, "sizes.txt", {"t": " ", "field-separator": " "})
        ),
        "uniq": list(from_table("uniq", readonly_tables.UNIQ, "sizes.txt", {})),
        "date": list(from_table("date", readonly_tables.DATE, "", {"rfc-3339": "ns", "iso-8601": "ns"})),
        "file": list(from_table("file", readonly_tables.FILE, "a.py link src", {})),
        "jq": list(from_table("jq", readonly_tables.JQ, ". data.json", {})),
        "base64": list(from_table("base64", readonly_tables.BASE64, "coded.txt", {})),
    }
    for subcommand in sorted(readonly_tables.GIT_READERS):
        groups[f"git {subcommand}"] = list(git_commands(subcommand))
    return groups
