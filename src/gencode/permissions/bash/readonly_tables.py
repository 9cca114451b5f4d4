"""The read-only commands and their options, as tables.

The lists of its first edition are word for word; what its second edition (13k) names without a list has
the options that are safe. `readonly` holds what is said beside them.
"""

from gencode.core.text import word_set as _set
from gencode.permissions.bash.options import OptionTable

SAFE_NAMES = _set(
    "LANG TZ NO_COLOR FORCE_COLOR CLICOLOR COLUMNS LINES CI NODE_ENV RUST_LOG RUST_BACKTRACE"
    " PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE"
)
SAFE_NAME_START = "LC_"
HARMLESS_NAME = "[a-z_][a-z0-9_]*"
HARMFUL_NAMES = _set("histchars auto_resume")
HARMFUL_NAME_END = "_proxy"

ANY_ARGUMENTS = _set(
    "cat head tail wc nl tac rev cut paste tr fold expand unexpand fmt column comm cmp join od hexdump"
    " strings ls stat du df readlink realpath basename dirname pwd echo true false : seq sleep uname"
    " whoami id groups nproc uptime free arch which type cksum md5sum sha1sum sha256sum sha512sum b2sum"
    " sum diff grep egrep fgrep expr cd exit return break continue"
)

FIND_VALUED = _set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin"
    " -atime -amin -ctime -cmin -newer -anewer -cnewer -user -group -uid -gid -perm -maxdepth -mindepth"
    " -printf -links -inum -samefile -lname -ilname -regextype -fstype"
)
FIND_PLAIN = _set(
    "-empty -depth -mount -xdev -follow -prune -print -print0 -ls -quit -not -a -o -and -or -true"
    " -false -readable -writable -executable -daystart -nouser -nogroup -L -H -P --version --help ( ) !"
    " ,"
)
FIND_BEFORE_PATHS = _set("-L -H -P")

RG = OptionTable(
    flags=_set("n i S s w x v c l q o F u U P a L p 0 H I N h . V"),
    valued=_set("e f g t T A B C m j M r E"),
    long=_set(
        "line-number no-line-number ignore-case smart-case case-sensitive word-regexp line-regexp"
        " invert-match count count-matches files-with-matches files-without-match only-matching quiet"
        " fixed-strings type-list hidden no-ignore no-ignore-vcs follow multiline multiline-dotall pcre2"
        " text json files stats heading no-heading with-filename no-filename null column trim vimgrep"
        " passthru no-config no-messages unrestricted version help"
    ),
    long_valued=_set(
        "regexp file glob iglob type type-not after-context before-context context max-count max-depth"
        " max-columns max-filesize sort sortr color replace encoding threads"
    ),
)
SORT = OptionTable(
    flags=_set("b d f g h i M n R r V c C u z s m"),
    valued=_set("k t"),
    long=_set(
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort"
        " month-sort numeric-sort random-sort reverse version-sort check unique zero-terminated stable"
        " merge debug help version"
    ),
    long_valued=_set("key field-separator parallel"),
)
UNIQ = OptionTable(
    flags=_set("c d D i u z"),
    valued=_set("f s w"),
    long=_set("count repeated all-repeated ignore-case unique zero-terminated group help version"),
    long_valued=_set("skip-fields skip-chars check-chars"),
)
DATE = OptionTable(
    flags=_set("u R"),
    valued=_set("d"),
    optional=_set("I"),
    long=_set("utc"),
    long_valued=_set("rfc-3339 date"),
    long_optional=_set("iso-8601"),
)
FILE = OptionTable(flags=_set("b i L h"), long=_set("brief mime mime-type mime-encoding"))
JQ = OptionTable(
    flags=_set("r c e s n S M C a j"),
    long=_set("raw-output compact-output slurp null-input sort-keys tab exit-status"),
    long_valued=_set("indent"),
    long_pairs=_set("arg argjson"),
)
BASE64 = OptionTable(
    flags=_set("d D i"), valued=_set("w"), long=_set("decode ignore-garbage"), long_valued=_set("wrap")
)

TEST_UNARY = _set("-e -f -d -r -w -x -s -L -h -n -z")
TEST_BINARY = _set("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")

PS = OptionTable(
    flags=_set("e f F l a A w d N j H L T y M"),
    valued=_set("u U p C t g G q s o O k"),
    long=_set("forest no-headers no-heading headers version"),
    long_valued=_set("sort pid ppid user User group tty format cols columns width rows lines"),
)
PS_BSD = frozenset("auxflwjhvcrmT")
"""What `ps aux` is made of; `e` would show environments."""
PS_AS_BSD = _set("-aux -ax -auxw -auxww -axu -axf -auxf")
"""Unix options that ps reads as BSD ones."""
TREE = OptionTable(
    flags=_set("a d l f i x p u g s h D q N Q F v t c U r C A S n J X"),
    valued=_set("L P I"),
    long=_set(
        "dirsfirst filesfirst noreport prune gitignore inodes device matchdirs ignore-case du si metafirst"
        " version help"
    ),
    long_valued=_set("filelimit charset sort timefmt"),
)
TAR = OptionTable(
    flags=_set("t v z j J a"),
    valued=_set("f"),
    long=_set("list verbose gzip bzip2 xz zstd auto-compress wildcards full-time numeric-owner utc"),
    long_valued=_set("file exclude strip-components"),
)
TAR_OLD = frozenset("tvzjJaf")
"""The letters of `tar tzf`, which takes its options without a dash."""
XXD = OptionTable(flags=_set("a b e E i p u C d"), valued=_set("l s c g o n"))
AWK_REFUSED = ("system", "getline", "ENVIRON", "SYMTAB", "FUNCTAB", "ARGV", "@", "\\\n", "\x00")
"""What an awk program could run commands, read variables or load code with."""
VERSION_NAMES = _set(
    "python python2 python3 pypy3 node nodejs npm ruby perl php lua java javac gcc g++ cc c++ clang clang++"
    " ld make gmake cmake ninja meson git bash zsh fish docker podman kubectl helm terraform curl wget jq yq"
    " rg fd tar zip unzip gzip bzip2 xz zstd sed grep gawk awk find sqlite3 psql mysql redis-server redis-cli"
    " nginx openssl tmux vim nvim nano emacs rsync ffmpeg tree file less htop pip pip3 uv gh deno swift ghc"
    " ocaml R gdb lldb strace go"
)
"""Programs that say their version and do nothing else, whatever lies in the folder.

Some choose the program that answers by files of the folder: cargo, rustc, yarn, pnpm, dotnet, bazel, mvn.
"""
SUBSTITUTED_NAMES = _set("V VERSION TAG BRANCH COMMIT SHA DATE FILE DIR NAME")
"""Variables that may be set from a substitution that only reads."""

GIT_BEFORE = _set("--no-pager -P")
GIT_READERS = _set(
    "status log diff show shortlog rev-parse rev-list ls-files ls-tree merge-base describe blame cat-file"
)
GIT_CLUSTER = frozenset("abcdeiklmnopqrstuvwzEFM")
GIT_SEARCHES = _set("-S -G -L")
GIT_LONG = _set(
    "oneline stat shortstat numstat name-only name-status graph all decorate no-decorate abbrev-commit"
    " no-merges merges first-parent follow reverse patch no-patch cached staged raw summary check quiet"
    " exit-code no-color color word-diff ignore-all-space ignore-space-change short long branch"
    " porcelain untracked-files ignored show-stash ahead-behind show-toplevel abbrev-ref verify"
    " is-inside-work-tree symbolic-full-name full-name tags always dirty count left-right others"
    " exclude-standard modified deleted stage no-renames find-renames no-ext-diff no-textconv"
    " show-current-patch"
)
GIT_LONG_VALUED = _set(
    "stat max-count since until after before author committer grep pretty format date unified"
    " diff-filter word-diff color abbrev decorate porcelain untracked-files ignored skip find-renames"
    " short dirty match"
)
GIT_HUNGRY = _set(
    "max-count since until after before author committer grep pretty format date unified diff-filter"
    " skip match"
)
"""Those of the valued ones that may take the next word, whatever it is: even `--`."""
GIT_BRANCH = OptionTable(
    flags=_set("a r v l"),
    long=_set("all remotes verbose show-current list no-color no-abbrev ignore-case"),
    long_valued=_set("contains no-contains merged no-merged points-at sort format"),
)
GIT_BRANCH_LISTS = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
GIT_TAG = OptionTable(
    flags=_set("l"), long=_set("list no-color"), long_valued=_set("sort format contains merged no-merged")
)
GIT_GREP = OptionTable(
    flags=_set("n i w v l L c h H o q E F G P a I z p W"),
    valued=_set("A B C m e"),
    long=_set(
        "line-number column ignore-case word-regexp invert-match files-with-matches name-only"
        " files-without-match count only-matching quiet extended-regexp fixed-strings basic-regexp"
        " perl-regexp text null full-name heading break show-function function-context cached untracked"
        " no-color color"
        " all-match and or not"
    ),
    long_valued=_set("after-context before-context context max-count max-depth threads color"),
)
GIT_SHOW_REF = OptionTable(
    flags=_set("d s q"),
    long=_set("head heads branches tags dereference hash verify quiet abbrev"),
    long_optional=_set("hash abbrev"),
)
GIT_FOR_EACH_REF = OptionTable(
    long=_set("ignore-case omit-empty"),
    long_valued=_set("count sort format points-at merged no-merged contains no-contains"),
)
GIT_CHECK_IGNORE = OptionTable(flags=_set("q v z n"), long=_set("quiet verbose stdin non-matching no-index"))
GIT_COUNT_OBJECTS = OptionTable(flags=_set("v H"), long=_set("verbose human-readable"))
GIT_CONFIG_KEY = r"(?:user|core|branch)\.[A-Za-z0-9._/-]+|remote\.[A-Za-z0-9._/-]+\.url"
