"""Which git commands only read, and every way to spell one that does not."""

import pytest

from gencode.permissions.bash.readonly_tables import GIT_LONG, GIT_LONG_VALUED, GIT_READERS
from tests.permissions.bash.judged import judge
from tests.permissions.bash.spelled import refusal

READS = r"""
-C x status
--no-pager -C x -C ../y log
--version
status
status -s
status -sb --porcelain=v1 -uno --ignored --untracked-files=all
--no-pager log
-P log --oneline
--no-pager -P log
log -5
log -n 5
log -n5 --stat
log --oneline -5 main..dev ^old
log -p -U3 --unified=5 --follow -- a.py
log --author=me --since '2 days ago' --until=now
log --author me --grep fix -- src
log --format='%h %s' --pretty=oneline --date=short
log -Sfoo -G'a b' -L1,5:a.py
log -S foo -L :main:a.py
log -S'--output=x'
log --graph --all --decorate=short --abbrev=8 --abbrev-commit
log -- --output=x -O x
log -1 -- -o
diff
diff --name-only main
diff --cached --stat=80 -M --diff-filter=AM HEAD~1 HEAD -- src/*.py
diff --stat -- --output=x
diff -w --word-diff=color --exit-code --no-ext-diff
show HEAD:a.py
show :/x
show -s --format=%B HEAD
show 'HEAD@{1}'
shortlog -sne
shortlog -n -- src
rev-parse --show-toplevel
rev-parse --abbrev-ref HEAD
rev-parse --short=8 --verify HEAD
rev-list --count --left-right a...b
ls-files -mo --exclude-standard
ls-files --others -z ./*.py
ls-tree -rl HEAD
merge-base a b
describe --tags --always --match 'v*' --abbrev=0
blame -L 1,3 a.py
blame -wM -e -- a.py
cat-file -p HEAD
cat-file -t HEAD
branch
branch -a
branch -vv
branch -av
branch --show-current
branch --list 'feat*' x
branch -l x
branch x --list
branch -r --no-color -v
tag
tag -l
tag --list 'v*' w
remote
remote -v
remote --verbose
stash list
worktree list
reflog
reflog show
reflog show HEAD main
"""

DOES_MORE = r"""

grep -O x
grep --open-files-in-pager x
grep -f x y
grep --textconv x
grep --recurse-submodules x
grep --no-index x
config --list
config user.name
config --get credential.helper
config --get http.proxy
config --get user.name x
config --get --file=x user.name
for-each-ref '--format=%(signature)'
branch '--format=%(signature:key)'
branch --contains HEAD --delete x
tag --sort=x new
tag --contains HEAD -d x
show-ref --exclude-existing
check-ignore --output=x
remote get-url --push x
remote show origin
merge-base --fork-point x
log --is-ancestor
-h
--help
--no-pager
--version --build-options
--no-pager --version
-v
-c alias.s=status s
-c core.fsmonitor=x status
-C status
-C x* status
-C
-Cx status
-p log
--git-dir=x status
--git-dir x status
--exec-path=x status
--paginate log
--no-pager=x log
--config-env=x status
-Pp log
commit
fetch
config -l
grep -O x
difftool
$sub
stat*
"$sub" x
Status
log $x
log "$x"
log *.py
log -- "$x"
diff --output=d.patch
diff --output d.patch
diff --outp=d.patch
diff --out d.patch
log --output=x
show --output=x
shortlog --output=x
diff -Ox
diff -O x
diff -O
diff --ext-diff
diff --textconv
diff --no-index a b
diff --no-inde a b
diff -R
diff -D
diff -W
diff -U
diff -U x
diff -Ux
diff -M50
diff -C
diff -X
diff -
diff -5p
log -n5p
log -pSx
log -g
log --show-signature
log --format=%G?
log --pretty='tformat:%h %GS'
log --remerge-diff
log --ext-diff
log --textconv
log --oneline=x
log --all=x
log --branch=x
log --open-files-in-pager
log -L -- --output=x
log -S -- --output=x
log -S --output=x
log -S
log -G -n
blame --since -- --output=x a
blame -S -- --output=x a
shortlog --author -- --output=x
shortlog --max-count -- --output=x
shortlog --grep -- x
describe --dirty
describe --dirty=x
describe --match -- x
describe --contains x
blame --contents x a
cat-file --textconv HEAD:a
cat-file --filters HEAD:a
cat-file --batch
rev-parse --parseopt
rev-parse --sq-quote x
rev-parse --git-dir
ls-files -x y
ls-files -X y
ls-files --with-tree=x
ls-tree --name-onl HEAD
branch wip
branch -v wip
branch -a x
branch -d x
branch -D x
branch -m x
branch -f x
branch -c x
branch -avd x
branch --list -d x
branch --delete x
branch --edit-description
branch --set-upstream-to=x
branch --list=x
branch --lis x
branch -- --list
branch --list -- x
branch --color
tag v1
tag -a v1
tag -d v1
tag -ld v1
tag -l -d v1
tag -n
tag v1 -l
tag --lis
tag --list=x
tag -l -- x
remote add x y
remote show origin
remote update
remote -v update
remote -v -v
remote -vv
remote prune x
stash
stash list -p
stash list x
stash pop
stash show
worktree
worktree list --porcelain
worktree add x
reflog -5
reflog HEAD
reflog expire
reflog delete x
reflog show --all
reflog show -p
reflog show -- x
reflog list
"""


@pytest.mark.parametrize("words", READS.strip().splitlines())
def test_it_only_reads(words: str) -> None:
    assert refusal(f"git {words}") == ""


@pytest.mark.parametrize("words", DOES_MORE.splitlines()[1:])
def test_it_may_do_more_than_read(words: str) -> None:
    assert refusal(f"git {words}") != ""


@pytest.mark.parametrize("words", READS.strip().splitlines())
def test_git_is_read_only_in_a_folder_of_the_workspace_and_nowhere_else(words: str) -> None:
    assert judge(f"cd src && git {words}").action == judge(f"git {words}").action
    assert judge(f"cd /srv && git {words}").action == "ask"
    assert judge(f"cd /srv && git {words}", mode="plan").action == "deny"


@pytest.mark.parametrize("name", sorted(GIT_READERS - {"describe"}))
def test_every_long_option_is_taken_exactly_as_it_is_spelled(name: str) -> None:
    for option in GIT_LONG | GIT_LONG_VALUED:
        assert refusal(f"git {name} --{option}") == ""
        assert (refusal(f"git {name} --{option}=1") == "") == (option in GIT_LONG_VALUED)
        assert refusal(f"git {name} --{option}x") != ""
        assert refusal(f"git {name} -{option}") == "" or set(option) - set("abcdeiklmnopqrstuvwzEFM")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("diff --output=x", "git diff --output=x is not among the options that only read"),
        ("-c a=b status", "git -c is not among the options that only read"),
        ("commit", "git commit may change files"),
        ("branch wip", "git branch wip may make a branch"),
        ("describe --dirty", "git describe --dirty rewrites the index"),
        ("shortlog --author -- x", "git shortlog --author takes -- for its value"),
    ],
)
def test_the_reason_is_a_sentence_for_people(words: str, reason: str) -> None:
    assert refusal(f"git {words}") == reason
