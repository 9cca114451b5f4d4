"""Every way we know to spell a command so that it looks as if it only read (git has a file of its own)."""

import pytest

from tests.permissions.bash.spelled import refusal

DOES_MORE = r"""
awk '{system("x")}' a
awk '{print > "f"}' a
awk '{print | "sh"}' a
awk '"date" | getline x' a
awk '{getline < "f"}' a
awk 'BEGIN {print ENVIRON["X"]}'
awk '@load "x"'
awk 'BEGIN {ARGV[1] = "/etc/shadow"}'
awk -f prog a
awk -i inplace 1 a
awk -E x
awk "$x" a
awk 1 -f x
awk *.awk a
sed -n /x/w a
sed -n '/x/p;w stolen' a
sed -n '/x/e' a
sed -n '\,x,p' a
sed -n 's/a/b/p' a
find . -exec rm {} \;
find . -exec sh -c x \;
find . -execdir cat {} \;
find . -ok cat {} \;
find . -exec cat {}
find . -exec sort -o x {} \;
find . -exec $x {} \;
find . -exec ./cat {} \;
ps e
ps auxe
ps axe
ps -auxe
ps -o environ
ps -eo pid,ENVIRON
tree -o x
tree -R
tree -H .
tree --fromfile x
tree *
tar tf host:file
tar -tf a --to-command=x
tar tf a -I x
tar -tf a --checkpoint-action=exec=x
tar tf a --rsh-command=x
tar xf a
tar -xf t
tar cf t a
tar t
tar -t
tar tf
tar tf *.tar
unzip a
unzip -lo a
unzip -l -o a
unzip -p a
zcat -r x
zcat *.gz
xxd a b
xxd -r a
xxd -pr a
xxd -p -r a
tee a
tee -a /dev/null
tee /dev/null x
hostname x
cargo --version
rustc --version
yarn --version
./node --version
node --version x
node version
go env
go version x
sort *.txt --
V=1
V=x
VERSIONS=$(ls)
tee x
env
printenv
set
export a
declare x
unset x
source x
. x
curl -I http://example.com
less x
man ls
nonsense
sh x
./cat x
/usr/local/bin/cat x
/bin/../bin/cat x
/usr/bin//cat x
//bin/cat x
bin/cat x
/bin/ x
"" x
Cat x
$cmd x
c?t x
`which ls` x
{cat,x}
cat {a,b}
echo a{1..3}
find . {-delete,}
arch -x86_64 rm x

find . -delete
find -delete
find . -exec rm {} +
find . -execdir rm {} ';'
find . -ok rm {} ';'
find . -okdir rm {} ';'
find . -fprint x
find . -fprint0 x
find . -fprintf x y
find . -fls x
find . -files0-from x
find -files0-from x
find . -name
find . -newermt 2020
find . -Delete
find . "-delete"
find -O3 .
find -D exec .
find -- x
find - x
find -LH x
find -f x
find -x .
find . -name x y
find . -name *.md
find $x
find . -name "$x"
find -a* .
find . -print -maxdepth
find --vers
find . -name=x

rg --pre=cat TODO
rg --pre cat TODO
rg --pre-glob x TODO
rg -z TODO
rg -nz TODO
rg --search-zip TODO
rg --hostname-bin x TODO
rg --hyperlink-format x TODO
rg -d 3 TODO
rg --generate man
rg --debug TODO
rg --ignore-file x TODO
rg --colors x TODO
rg --hid TODO
rg --hidden=x TODO
rg --color
rg -e
rg --regexp
rg TODO *.c
rg TODO ?
rg TODO [ab]
rg --glob=*.py TODO
rg -g*.py TODO
rg TODO $x
rg TODO "$x"
rg TODO src/$x
rg TODO "$(ls)"
rg TODO <(ls)
rg TODO ""*
rg TODO ''"-"*

sort sizes.txt -o sizes.txt
sort -o x
sort -ox
sort -rno x
sort --output=x
sort --output x
sort --outp=x
sort --compress-program=x a
sort --compress-prog x a
sort -T /tmp a
sort -S 1M a
sort --buffer-size=1M a
sort --temporary-directory=x a
sort --files0-from=x
sort --batch-size=2 a
sort --random-source=x a
sort --sort=month a
sort --check=quiet a
sort --key
sort -k
sort -5 a
sort *.txt
sort "$x"

uniq in.txt out.txt
uniq -c in.txt out.txt
uniq -- in.txt out.txt
uniq in.txt -- out.txt
uniq a*
uniq -f 1*
uniq -5 in.txt
uniq in.txt -c
uniq in.txt --
uniq -f
uniq --all-repeated=prepend a
uniq --group=both a

sed
sed 3p x
sed -n
sed -n 3p -i x
sed -n 3p x -i
sed -n 3p -- x
sed -n 3p -
sed -n -i 3p x
sed -ni 3p x
sed -i -n 3p x
sed -n -e 3p x
sed -ne 3p x
sed --quiet 3p x
sed -n '1,3w x' setup.cfg
sed -n '3p;w x' a
sed -n $'3p\nw x' a
sed -n 3pw a
sed -n '3 p' a
sed -n '3,p' a
sed -n ',3p' a
sed -n p a
sed -n 3q a
sed -n 3e a
sed -n '1,2,3p' a
sed -n ３p a
sed -n 3p *.txt
sed -n "$x" a
sed -n 3* a

date 01010000
date -s x
date --set=x
date --se=x
date -us x
date -f x
date -r x
date -I x
date -uIx 0101
date -d now 0101
date -- 0101
date --iso-8601 x
date --rfc-3339
date --date
date -d
date --universal
date --utc=x
date --rfc-email
date $x
date "+$x"
date -d 2*
date +*

printf
printf -v x y
printf -- x
printf -
printf "$x" y
printf a* y
printf %n x
printf 'abc%nd' x
printf '%5n' x
printf '%-05.3ln' x
printf '%*n' 1 x
printf "%'n" x
printf '%%n'

test
test x
test !
test ! x
test -v x
test -R x
test -o x
test -t 1
test -f
test -k x
test -f x -a -f y
test x = y -o -v z
test \( x \)
test \( x = y \)
test x -a y
test x '<' y
test x =~ y
test -n $x
test $x = y
test -f *
test -f a*
test "$op" x
test a "$op" b
test "$not" -f x
test -n "$@"
test -n "${@}"
test -n "a$@"
test ! ! -f x
test -f x ]
[ -f x
[ -f x ] y
[ ]
[ x ]
[ -f x "$end"
[ -f "$@" ]
[

read
read -r
read -rp x y
read -p x y
read -a x
read -u 3 x
read -r -s x
read -- x
read PATH
read IFS
read x PATH
read http_proxy
read _proxy
read histchars
read auto_resume
read LANG
read 'a[0]'
read $x
read "$x"
read a*
read 2a
read ä

file -f x
file -m x y
file -C -m x
file -bf x
file -z x
file -s x
file -k x
file --files-from x
file --compile
file --magic-file=x y
file --mime-typ x
file --mime=x y
file *
file $x

jq env
jq '.x | ENV' a
jq '$ENV.PATH'
jq '$__loc__, $Env' a
jq . .env.json
jq --arg x env .
jq --arg environment x .
jq -L x .
jq -f x
jq -nf x
jq --from-file x
jq --slurpfile a b .
jq --rawfile a b .
jq --args . x
jq --jsonargs . x
jq --stream .
jq --seq .
jq -h
jq --arg a
jq --arg
jq --arg=a b .
jq --indent
jq .a*
jq a* x
jq --arg a b* . c
jq --arg a* b .
jq . *.json
jq "$x"
jq ".$x" a
jq -- . x
jq . -- x

base64 -o x
base64 -do x
base64 -w
base64 -w -o x
base64 -wx x
base64 --output=x
base64 --dec x
base64 --decode=x
base64 --wrap
base64 -b 3 x
base64 *

command
command -v
command -V
command -p ls
command -pv ls
command -vp ls
command -vV ls
command -v -p ls
command -v -- ls
command ls
command -v *
command -v "$x"
"""


@pytest.mark.parametrize("command", list(filter(None, DOES_MORE.splitlines())))
def test_it_may_do_more_than_read(command: str) -> None:
    assert refusal(command) != ""
