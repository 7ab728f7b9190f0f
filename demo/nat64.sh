#!/usr/bin/env bash
# An IPv6-only client fetches a page from an IPv4-only server, through dns64d and the NAT64 tayga.
#
#     demo/nat64.sh [PROGRAM]        PROGRAM is dns64d, target/release/dns64d by default
#
#     client  2001:db8:1::2 -------- 2001:db8:1::1  router  198.51.100.1 -------- 198.51.100.2  server
#     IPv6 only; curl                dns64d, tayga for 2001:db8:64::/96             IPv4 only; web, resolver
#
# All of it lives in namespaces of this process: when it ends, however it ends, nothing is left on the
# machine. It needs root, or a kernel that lets users make namespaces and a /dev/net/tun that they may open.
# Exit codes: 0 the page came, 1 it did not, 3 SKIPPED: this machine cannot run the demonstration.
set -euo pipefail

readonly CLIENT=2001:db8:1::2 ROUTER=2001:db8:1::1 PREFIX=2001:db8:64::/96
readonly ROUTER_V4=198.51.100.1 SERVER_V4=198.51.100.2 POOL=203.0.113.0/24 TAYGA_V4=203.0.113.1
readonly SERVER_IN_PREFIX=2001:db8:64::c633:6402
readonly WORK=/run/nat64

say() { printf '%s\n' "$*"; }
step() { printf '\n%s\n' "$*"; }
skip() { say "SKIPPED: $*"; exit 3; }
fail() {
    say "FAILED: $*"
    tail -n 20 "$WORK"/*.log 2>/dev/null || true
    exit 1
}
indented() { sed 's/^/    /'; }

# in_namespace NAME COMMAND...: runs it as a machine of the demonstration.
in_namespace() { ip netns exec "$@"; }

# within_s SECONDS WHAT COMMAND...: waits until the command is true, or fails.
within_s() {
    local tries=$(($1 * 10)) what=$2
    shift 2
    until "$@" &>/dev/null; do
        ((tries-- > 0)) || fail "$what did not come up"
        sleep 0.1
    done
}

ask() { in_namespace client dig +tries=2 +time=2 +short "$@" "@$ROUTER"; }
has_address() { ask "$@" | grep -q "^[0-9a-f.:]*$"; }

# expect WHAT GOT WANTED
expect() {
    [[ $2 == "$3" ]] || fail "$1: expected '$3', got '$2'"
}

# Outside: checks the machine and starts this script again, in namespaces of its own.
enter() {
    local program=${1:-$(dirname "$0")/../target/release/dns64d} tool namespaces
    for tool in ip unshare dig curl busybox unbound tayga; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    busybox httpd --help &>/dev/null || skip "this busybox has no httpd"
    [[ -x $program ]] || fail "no program $program: make build"
    [[ -r /dev/net/tun && -w /dev/net/tun ]] || skip "/dev/net/tun cannot be opened, which tayga needs"
    namespaces=(--mount --net --pid --fork --kill-child --mount-proc)
    ((EUID == 0)) || namespaces+=(--user --map-root-user)
    unshare "${namespaces[@]}" true || skip "this kernel does not let us make namespaces"
    NAT64_INSIDE=1 PATH=$PATH:/usr/sbin:/sbin exec unshare "${namespaces[@]}" "$0" "$(realpath "$program")"
}

# A private /run: the names of the namespaces, the files of this demonstration, and no socket of the machine's
# services.
make_room() {
    mount -t tmpfs tmpfs /run
    mkdir -p "$WORK/www" "$WORK/tayga"
    local resolv_conf
    resolv_conf=$(realpath -m /etc/resolv.conf)
    [[ -e $resolv_conf ]] || { mkdir -p "$(dirname "$resolv_conf")" && touch "$resolv_conf"; }
    say "nameserver $ROUTER" >"$WORK/resolv.conf"
    mount --bind "$WORK/resolv.conf" "$resolv_conf"
}

make_network() {
    local name
    for name in client router server; do
        ip netns add "$name"
        ip -n "$name" link set lo up
    done
    ip link add client netns router type veth peer name eth0 netns client
    ip link add server netns router type veth peer name eth0 netns server
    in_namespace server sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'
    in_namespace router sh -c \
        'echo 1 | tee /proc/sys/net/ipv6/conf/all/forwarding >/proc/sys/net/ipv4/ip_forward'

    ip -n client address add "$CLIENT/64" dev eth0 nodad
    ip -n router address add "$ROUTER/64" dev client nodad
    ip -n router address add "$ROUTER_V4/24" dev server
    ip -n server address add "$SERVER_V4/24" dev eth0
    ip -n client link set eth0 up
    ip -n router link set client up
    ip -n router link set server up
    ip -n server link set eth0 up
    ip -n client route add default via "$ROUTER"
    ip -n server route add default via "$ROUTER_V4"
}

start_server() {
    say 'Hello from an IPv4-only server.' >"$WORK/www/index.html"
    in_namespace server busybox httpd -f -vv -p "$SERVER_V4:80" -h "$WORK/www" &>"$WORK/httpd.log" &
    # It stands for the resolvers and the zones of the Internet.
    cat >"$WORK/unbound.conf" <<-CONF
	server:
	    interface: $SERVER_V4
	    access-control: 0.0.0.0/0 allow
	    do-ip6: no
	    do-daemonize: no
	    use-syslog: no
	    chroot: ""
	    username: ""
	    pidfile: ""
	    directory: "$WORK"
	    module-config: "iterator"
	    local-zone: "example." static
	    local-data: "example. 300 SOA ns.example. root.example. 1 3600 600 86400 300"
	    local-data: "web.example. 300 A $SERVER_V4"
	    local-data: "both.example. 300 A $SERVER_V4"
	    local-data: "both.example. 300 AAAA 2001:db8:2::80"
	    local-data-ptr: "$SERVER_V4 300 web.example"
	    local-zone: "ipv4only.arpa." static
	    local-data: "ipv4only.arpa. 300 SOA ns.example. root.example. 1 3600 600 86400 300"
	    local-data: "ipv4only.arpa. 300 A 192.0.0.170"
	    local-data: "ipv4only.arpa. 300 A 192.0.0.171"
	remote-control:
	    control-enable: no
	CONF
    in_namespace server unbound -d -c "$WORK/unbound.conf" &>"$WORK/unbound.log" &
}

start_nat64() {
    cat >"$WORK/tayga.conf" <<-CONF
	tun-device nat64
	ipv4-addr $TAYGA_V4
	prefix $PREFIX
	dynamic-pool $POOL
	data-dir $WORK/tayga
	CONF
    in_namespace router tayga --config "$WORK/tayga.conf" --mktun >"$WORK/tayga.log" ||
        skip "tayga cannot make its device: $(tail -n 1 "$WORK/tayga.log")"
    ip -n router link set nat64 up
    ip -n router route add "$PREFIX" dev nat64
    ip -n router route add "$POOL" dev nat64
    in_namespace router tayga --config "$WORK/tayga.conf" --nodetach &>>"$WORK/tayga.log" &
}

start_dns64d() {
    cat >"$WORK/dns64d.toml" <<-CONF
	listen = ["[$ROUTER]:53"]
	upstreams = ["$SERVER_V4"]
	prefixes = ["$PREFIX"]
	allow = ["2001:db8:1::/64"]
	# The addresses of documentation are private: without this, dns64d denies their names itself.
	[[forward]]
	domains = ["100.51.198.in-addr.arpa"]
	upstreams = ["$SERVER_V4"]
	CONF
    in_namespace router "$1" --config "$WORK/dns64d.toml" &>"$WORK/dns64d.log" &
}

demonstrate() {
    step '1. Three machines: an IPv6-only client, a router, an IPv4-only server.'
    make_network
    in_namespace client ip -brief -6 address show dev eth0 | indented
    in_namespace server ip -brief address show dev eth0 | indented
    say "    The client has no route to $SERVER_V4:" \
        "$(in_namespace client ip -4 route get "$SERVER_V4" 2>&1 | head -n 1 || true)"

    step '2. The server: a web server, and a resolver for web.example (A only) and both.example (A and AAAA).'
    start_server
    step "3. The router: tayga translates $PREFIX, dns64d makes the addresses in it."
    start_nat64
    start_dns64d "$1"
    within_s 20 'the way through dns64d to the resolver' has_address A web.example
    indented <"$WORK/dns64d.toml"

    step '4. The client asks dns64d for web.example, which has no IPv6 address. It gets one in the prefix.'
    local answer
    answer=$(ask AAAA web.example)
    say "    web.example AAAA $answer   ($SERVER_V4 in $PREFIX)"
    expect 'the AAAA record of web.example' "$answer" "$SERVER_IN_PREFIX"

    step '5. A name that has an address in IPv6 keeps it.'
    answer=$(ask AAAA both.example)
    say "    both.example AAAA $answer"
    expect 'the AAAA record of both.example' "$answer" 2001:db8:2::80

    step '6. Programs find the prefix by ipv4only.arpa (RFC 7050). An address in it leads back to its name.'
    answer=$(ask AAAA ipv4only.arpa | sort | paste -sd ' ')
    say "    ipv4only.arpa AAAA $answer"
    expect 'the AAAA records of ipv4only.arpa' "$answer" '2001:db8:64::c000:aa 2001:db8:64::c000:ab'
    answer=$(ask -x "$SERVER_IN_PREFIX" | tail -n 1)
    say "    $SERVER_IN_PREFIX PTR $answer"
    expect 'the name of the address' "$answer" web.example.

    step '7. The client fetches http://web.example/ as if there were nothing special about it.'
    answer=$(in_namespace client \
        curl --silent --show-error --max-time 15 --noproxy '*' http://web.example/) ||
        fail 'the client got no page'
    say "    $answer"
    expect 'the page' "$answer" "$(<"$WORK/www/index.html")"
    grep -Eq '203\.0\.113\.[0-9]+' "$WORK/httpd.log" || fail 'the server saw no client of the NAT64'
    say "    The server saw an IPv4 client: $(grep -Eo '203\.0\.113\.[0-9]+' "$WORK/httpd.log" | head -n 1)"

    step 'The IPv6-only client has reached the IPv4-only server.'
}

if [[ -z ${NAT64_INSIDE:-} ]]; then
    enter "$@"
else
    make_room
    demonstrate "$1"
fi
