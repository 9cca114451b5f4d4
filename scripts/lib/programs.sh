# Sourced by scripts/test.
#
#   have COMMAND PACKAGE
#
# installs the distribution's package where that is allowed (root, apt-get). Where it is not, the tests that
# need the command are skipped, say so at the end, and fail the run when CI=true.

have() {
    local said
    if type -P "$1" >/dev/null || [ "$(id -u)" != 0 ] || ! type -P apt-get >/dev/null; then
        return 0
    fi
    echo "test: installing $2…" >&2
    if ! said=$( { apt_install "$2" || { apt-get -qq update && apt_install "$2"; }; } 2>&1 </dev/null); then
        printf '%s\n' "$said" | tail -n 5 >&2
    fi
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$1"
}
