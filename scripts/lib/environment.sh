# Sourced by scripts/gen, scripts/test and scripts/check; bash 3.2 (macOS) is enough.
#
#   ready WHO FOLDER PINNED_FILES EXTRAS INSTALL_ARGUMENT…
#
# leaves $venv pointing at a virtual environment of $root that holds what is asked for, and every extra that
# was ever asked for. The usual case costs no process but one start of Python: the stamp is the text the
# environment was made from, and the file extras names what was added to it.

newest_first='python3 python3.13 python3.12 python3.11 python3.14 python'

probe='
import os, sys
if sys.version_info >= (3, 11):
    try:
        import ensurepip, venv
        kind = ensurepip.version() and "whole"
    except Exception:
        kind = "bare"
    print(kind, os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
'

ready() {
    local who=$1 folder=$2 pinned=$3 extras=$4 file stamp python
    shift 4
    venv=$root/$folder
    stamp="$root"$'\n'"$*"
    for file in pyproject.toml $pinned; do
        stamp=$stamp$'\n'$(<"$root/$file")
    done
    if [ -f "$venv/stamp" ] && [ "$(<"$venv/stamp")" = "$stamp" ] && has_extras &&
        "$venv/bin/python" -I -S -c '' >/dev/null 2>&1 </dev/null; then
        return
    fi
    if ! python=$(find_python); then
        echo "$who: this needs Python 3.11 or newer and there is none on PATH; install one and try again." >&2
        exit 2
    fi
    "$python" -I -B "$root/scripts/lib/environment.py" "$who" "$root" "$venv" "$stamp" "$extras" "$@" </dev/null >&2 || exit $?
}

# Whether $venv has every one of $extras.
has_extras() {
    local had= name
    [ -f "$venv/extras" ] && had=$(<"$venv/extras")
    for name in ${extras//,/ }; do
        case ",$had," in *",$name,"*) ;; *) return 1 ;; esac
    done
}

ready_for_tests() {
    ready "$1" .venv-test 'requirements/runtime.txt requirements/test.txt' '' -r requirements/test.txt -e '.[tui]'
}

# A Python that can make environments by itself, or else any that is new enough. Each candidate is really
# run: a version manager's shim may stand on PATH and start nothing.
find_python() {
    local name candidate said spare=
    for name in $newest_first; do
        while IFS= read -r candidate; do
            said=$("$candidate" -I -c "$probe" 2>/dev/null </dev/null) || continue
            case $said in
            whole\ *) printf '%s\n' "${said#whole }" && return ;;
            bare\ *) spare=${spare:-${said#bare }} ;;
            esac
        done < <(type -aP "$name")
    done
    if [ -z "$spare" ] && type -P uv >/dev/null; then
        # Not where we are: uv would start an interpreter that lies there.
        spare=$(cd -- "$root" && UV_PYTHON_DOWNLOADS=never uv python find '>=3.11' 2>/dev/null </dev/null) || spare=
    fi
    [ -n "$spare" ] && printf '%s\n' "$spare"
}
