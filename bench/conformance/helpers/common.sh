# shellcheck shell=bash
# Shared by the conformance scripts: arguments, ports, the program under test, tidying up.
#
# A script sets `usage`, reads this file, calls `parse "$@"` and then start_*; everything started is
# stopped when the script ends, and everything listens on 127.0.0.1 only.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
PATH="$PATH:/usr/sbin:/sbin"

# What the user chose.
: "${usage:?}"
suite=      # the checkout of the suite
peer=       # another proxy to start instead of Freshet: nginx
peer_url=   # a proxy that runs already
origin_port=
keep=       # a folder for the raw output
freshet_options=()  # further ones for `freshet serve`
options=()  # --NAME VALUE pairs that the script itself understands, by `option`

say() { printf '%s\n' "$*" >&2; }
give_up() {
    printf '%s\n' "$@" >&2
    exit 2
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/freshet-conformance.XXXXXX")
processes=()
tidy_up() {
    local process
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$scratch"
}
trap tidy_up EXIT
trap 'exit 130' INT TERM

common_options="  --freshet PROGRAM   the program under test (default: \$FRESHET or target/release/freshet)
  --peer nginx        start Debian's nginx instead, as the baseline
  --peer-url URL      use a proxy that runs already; it must forward to --origin-port
  --origin-port PORT  the port the suite's origin listens on (default: any free one)
  --keep FOLDER       keep the raw output and the logs there"

# parse ARGUMENTS...: fills the variables above; what it does not know goes to `options`.
parse() {
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help)
            printf '%s\n' "$usage" "$common_options"
            exit 0
            ;;
        --freshet) FRESHET=${2:?} && shift ;;
        --peer) peer=${2:?} && shift ;;
        --peer-url) peer_url=${2:?} && shift ;;
        --origin-port) origin_port=${2:?} && shift ;;
        --keep) keep=${2:?} && shift ;;
        --*) options+=("$1" "${2:?"$1 needs a value"}") && shift ;;
        *)
            [ -z "$suite" ] || give_up "one checkout at a time" "$usage"
            suite=$1
            ;;
        esac
        shift
    done
    [ -n "$suite" ] || give_up "$usage" "$common_options"
    suite=$(cd "$suite" 2>/dev/null && pwd) || give_up "there is no such folder"
    [ -z "$peer_url" ] || [ -n "$origin_port" ] || give_up "--peer-url needs --origin-port: where the proxy forwards to"
    peer_url=${peer_url%/}
    [[ -z "$peer_url" || "$peer_url" =~ ^http://127\.0\.0\.1:[0-9]+$ ]] || give_up "--peer-url is http://127.0.0.1:PORT"
    if [ -n "$keep" ]; then mkdir -p "$keep" && keep=$(cd "$keep" && pwd); fi
}

# option NAME DEFAULT: the value of an option of the script's own.
option() {
    local index value=$2
    for ((index = 0; index < ${#options[@]}; index += 2)); do
        [ "${options[index]}" = "--$1" ] && value=${options[index + 1]}
    done
    echo "$value"
}

# known NAME...: refuses options the script does not have.
known() {
    local index
    for ((index = 0; index < ${#options[@]}; index += 2)); do
        case " $* " in *" ${options[index]#--} "*) ;; *) give_up "unknown option ${options[index]}" "$usage" ;; esac
    done
}

need() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null || give_up "$name is needed; 'make setup' installs what Debian has"
    done
}

# free_ports COUNT: that many different ports nobody listens on.
free_ports() { node "$here/free-ports.mjs" "$1"; }

# wait_for_port PORT PROCESS LOG: until something listens, 20 seconds at most.
wait_for_port() {
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
        if ! kill -0 "$2" 2>/dev/null; then
            cat "$3" >&2
            give_up "it ended before it listened on port $1"
        fi
        sleep 0.1
    done
    cat "$3" >&2
    give_up "nothing listens on port $1 after 20 seconds"
}

# start LOG COMMAND...: in the background; $started is its process.
start() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null &
    started=$!
    processes+=("$started")
}

# start_origin BYTES: our own origin, which echoes bodies and answers a request without one with
# that many bytes.
start_origin() {
    [ -n "$origin_port" ] || origin_port=$(free_ports 1)
    start "$scratch/origin.log" node "$here/origin.mjs" "$origin_port" "$1"
    wait_for_port "$origin_port" "$started" "$scratch/origin.log"
}

# Makes the test certificate, once a run.
certificate() {
    [ -e "$scratch/key.pem" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
        -nodes -days 2 -subj /CN=localhost -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' \
        -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null ||
        give_up "openssl could not make a test certificate"
}

# start_proxy clear|tls|h2c...: what is tested, in front of $origin_port. Sets $port, $tls_port (with
# tls) and $subject, how it names itself.
start_proxy() {
    local wants=" $* " ports
    tls_port=
    if [ -n "$peer_url" ]; then
        port=${peer_url##*:}
        subject=$peer_url
        tls_port=$(option tls-port '')
        return
    fi
    read -r -a ports <<<"$(free_ports 3 | tr '\n' ' ')"
    port=${ports[0]}
    [[ $wants != *" tls "* ]] || { tls_port=${ports[1]} && certificate; }
    case $peer in
    '') start_freshet "${ports[2]}" ;;
    nginx) start_nginx "$wants" ;;
    *) give_up "no such peer: $peer" ;;
    esac
    wait_for_port "$port" "$started" "$scratch/proxy.log"
    [ -z "$tls_port" ] || wait_for_port "$tls_port" "$started" "$scratch/proxy.log"
    proxy_process=$started
}

# over_http3: what asks $port from now on asks the proxy's TLS port over HTTP/3.
over_http3() {
    need python3
    local server_port=$tls_port
    port=$(free_ports 1)
    start "$scratch/over-http3.log" python3 "$here/over-http3.py" "$port" "$server_port" "$scratch/cert.pem"
    wait_for_port "$port" "$started" "$scratch/over-http3.log"
    subject="$subject over HTTP/3"
}

# With `tiers` set to 2, what is tested is an edge before a parent.
tiers=1

start_freshet() {
    local program=${FRESHET:-$root/target/release/freshet} tls=()
    [ -x "$program" ] || give_up "there is no $program" \
        "Build it (cargo build --release -p freshet-cli --bin freshet) or name one with --freshet."
    [ "$tiers" != 2 ] || start_parent "$program"
    [ -z "$tls_port" ] || tls=(--listen-tls "127.0.0.1:$tls_port" --cert "$scratch/cert.pem" --key "$scratch/key.pem")
    start "$scratch/proxy.log" "$program" serve --origin "http://127.0.0.1:$origin_port" \
        --listen "127.0.0.1:$port" "${tls[@]}" --admin "127.0.0.1:$1" --memory 256MB --workers 1 \
        "${freshet_options[@]}"
    subject=$("$program" --version 2>/dev/null | head -n 1)
    [ -n "$subject" ] || subject=$program
    [ "$tiers" != 2 ] || subject="$subject through two tiers"
}

# A parent before the origin, for the node that is started next.
start_parent() {
    local parent_port parent_admin
    read -r parent_port parent_admin <<<"$(free_ports 2 | tr '\n' ' ')"
    start "$scratch/parent.log" "$1" serve --origin "http://127.0.0.1:$origin_port" \
        --listen "127.0.0.1:$parent_port" --admin "127.0.0.1:$parent_admin" --memory 256MB --workers 1 \
        --set cache.name=parent --set cache.peers=127.0.0.0/8 "${freshet_options[@]}"
    wait_for_port "$parent_port" "$started" "$scratch/parent.log"
    printf '[[parent]]\nname = "parent"\nurl = "http://127.0.0.1:%s"\n[parents]\ndirect = false\n' "$parent_port" >"$scratch/edge.toml"
    freshet_options+=(--config "$scratch/edge.toml")
}

# Debian's nginx as the suite for caches configures it.
start_nginx() {
    need nginx
    local folder=$scratch/nginx listen_tls='' h2='' user=()
    mkdir -p "$folder/cache"
    [[ $1 != *" h2c "* ]] || h2=' http2'
    [ -z "$tls_port" ] || listen_tls="listen 127.0.0.1:$tls_port ssl http2; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate $scratch/cert.pem; ssl_certificate_key $scratch/key.pem;"
    # Started by root its workers would become nobody, who may not look into the scratch folder.
    [ "$(id -u)" != 0 ] || user=(-g 'user root;')
    sed -e "s|@FOLDER@|$folder|g" -e "s|@LISTEN@|127.0.0.1:$port$h2|" -e "s|@TLS@|$listen_tls|" \
        -e "s|@ORIGIN@|127.0.0.1:$origin_port|" "$here/nginx.conf" >"$folder/nginx.conf"
    start "$scratch/proxy.log" nginx -p "$folder" -c "$folder/nginx.conf" "${user[@]}"
    subject=$(nginx -v 2>&1 | sed 's/^nginx version: //')
}

# still_alive: a proxy that died during the suite has failed whatever the suite says.
still_alive() {
    [ -n "$peer_url" ] || kill -0 "$proxy_process" 2>/dev/null || {
        tail -n 30 "$scratch/proxy.log" >&2
        say "the proxy ended during the run"
        return 1
    }
}

# keep_output: copies the raw output and the logs to the folder asked for.
keep_output() {
    [ -z "$keep" ] || cp -r "$scratch"/*.log "$scratch"/*.json "$scratch"/*.txt "$keep/" 2>/dev/null
    return 0
}
