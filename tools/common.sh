# shellcheck shell=sh
# Shared by the scripts in this folder: where things are, and how to speak.
# Read with `. "$(dirname "$0")/common.sh"`; it moves to the project's root.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root" || exit 1

# rustup installs here without changing the PATH of shells already running; Debian keeps servers
# such as nginx in sbin, which ordinary users do not have on theirs.
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

# Node packages for the browser tests end up here; the tests are told by this variable.
FRESHET_BROWSER_MODULES="${FRESHET_BROWSER_MODULES:-$root/.cache/browser/node_modules}"
export FRESHET_BROWSER_MODULES

# What is not built unless it is asked for: the edge router, whose programs for the kernel need clang.
FRESHET_FEATURES=freshet-cli/router,freshet-router/kernel
export FRESHET_FEATURES

say() { printf '%s\n' "$*" >&2; }

# have NAME...: whether all of these programs are there.
have() {
    for have_name in "$@"; do
        command -v "$have_name" >/dev/null 2>&1 || return 1
    done
}

# give_up MESSAGE...: each argument is one line.
give_up() {
    printf '%s\n' "$@" >&2
    exit 1
}

# machine_of ARCHITECTURE: the kernel's name for a kind of processor that packages are made for, by Debian's.
machine_of() {
    case $1 in
    amd64) echo x86_64 ;;
    arm64) echo aarch64 ;;
    *) give_up "packages are made for amd64 and arm64, not for $1" ;;
    esac
}
