#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Records examples/edge.pcapng: what the inside port of an edge router sees.
#
#   sudo examples/capture/record.sh [OUTPUT [JOINED]]     default: examples/edge.pcapng
#   HOSTS=40 PACKETS=7300                                 environment, with their defaults
#
# With JOINED the interfaces keep their offloads, and the same traffic is recorded twice: as a
# capture of such a machine shows it (JOINED), and as the kernel cuts it for a wire (OUTPUT).
#
# 40 inside hosts, each in a separate network namespace, are attached to a bridge; real programs on
# them talk to real servers in another namespace, over IPv4 and IPv6, all at the same time. tcpdump
# records on the servers' end of the uplink.
#
#   h1 ... h40 [one namespace each]    10.0.0.0/16      2001:db8:10::/64
#        |
#       br0 [lan]
#        |
#     uplink [net]                      198.51.100.0/24  2001:db8:64::/64   tcpdump, servers
#
# With JOINED, br0 has a port `wire` to which it floods every frame, and which offloads nothing.
#
# Anonymous by construction: every address, name and page is fictitious (RFC 1918, 2606, 3849,
# 5737). Segmentation and checksum offload are switched off on these interfaces only, so that every
# packet is at most an MTU long and carries the checksum that would be on the wire.
#
# The host is not changed: the whole script runs in its own mount, network, process and host name
# namespaces, with its own /run, /tmp, /root and /var/log. The kernel removes all of it when the
# script ends, however it ends.
#
# Needs root and: bash iproute2 ethtool util-linux tcpdump wireshark-common (capinfos, editcap,
# reordercap) nginx-light curl dnsmasq bind9-dnsutils (dig) redis-server redis-tools openssh-server
# openssh-client openssl chrony ntpsec-ntpdig iperf3 socat bsdutils (logger) iputils-ping.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export HOSTS=${HOSTS:-40} PACKETS=${PACKETS:-7300}

if [ "${1:-}" != --inside ]; then
    output=$(realpath "${1:-$here/../edge.pcapng}")
    joined=${2:+$(realpath "$2")}
    for program in ip ethtool unshare tcpdump capinfos editcap reordercap nginx curl dnsmasq dig \
        redis-server redis-cli sshd ssh openssl chronyd ntpdig iperf3 socat logger ping; do
        command -v "$program" >/dev/null || { echo "record.sh: $program is missing" >&2; exit 1; }
    done
    exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc \
        "$here/record.sh" --inside "$output" "$joined"
fi
output=$2 joined=$3
out_dir=$(dirname "$output") joined_dir=$(dirname "${joined:-$output}")

# Files needed from outside must stay reachable after these directories are hidden.
mount --bind "$here" /mnt
mount -t tmpfs tmpfs /run
mkdir /run/out /run/joined /run/sshd
mount --bind "$out_dir" /run/out
mount --bind "$joined_dir" /run/joined
for hidden in /root /var/log /tmp; do
    mount -t tmpfs tmpfs "$hidden"
done
hostname inside.example.net
export WORK=/tmp/record
mkdir -p "$WORK"

# host_v4 N, host_v6 N: addresses of inside host N, over four /24 of the inside network.
host_v4() { echo "10.0.$(($1 % 4)).$((10 + $1))"; }
host_v6() { printf '2001:db8:10::%x' $((0x100 + $1)); }

plain_ethernet() {
    ethtool -K "$1" tx off rx off sg off gso off tso off gro off >/dev/null
}
export -f plain_ethernet

# Without offloads, unless the traffic is to be recorded joined.
uplink_ethernet() {
    [ -n "$joined" ] || ip netns exec "$1" bash -c "plain_ethernet $2"
}

# A port that sees every frame of br0, cut to wire size and with its checksums.
make_wire() {
    ip -n lan link set br0 type bridge ageing_time 0
    ip -n lan link add wire type veth peer name wire0 netns net
    ip netns exec lan bash -c 'plain_ethernet wire'
    ip netns exec net bash -c 'plain_ethernet wire0'
    # Only listens: an address would speak on it.
    ip netns exec net sysctl -qw net.ipv6.conf.wire0.disable_ipv6=1
    ip netns exec lan sysctl -qw net.ipv6.conf.wire.disable_ipv6=1
    ip -n net link set wire0 up
    ip -n lan link set wire master br0 up
}

make_network() {
    ip netns add lan
    ip netns add net
    ip -n lan link add br0 type bridge mcast_snooping 0
    ip -n lan link set br0 up
    ip -n lan link add up0 type veth peer name uplink netns net
    ip -n lan link set up0 master br0 up
    ip -n net link set uplink address 02:00:00:00:ff:fe up
    uplink_ethernet lan up0
    uplink_ethernet net uplink
    ip -n net link set lo up
    ip -n net addr add 10.0.255.254/16 dev uplink
    ip -n net addr add 2001:db8:10::fffe/64 dev uplink nodad
    local last
    for last in 14 22 50 53 63 80 81 82 123; do
        ip -n net addr add "198.51.100.$last/32" dev lo
        ip -n net addr add "2001:db8:64::$last/128" dev lo nodad
    done
    local n
    for n in $(seq "$HOSTS"); do
        ip netns add "h$n"
        ip -n lan link add "p$n" type veth peer name eth0 netns "h$n"
        ip -n lan link set "p$n" master br0 up
        ip -n "h$n" link set eth0 address "$(printf '02:00:00:00:01:%02x' "$n")" up
        uplink_ethernet lan "p$n"
        uplink_ethernet "h$n" eth0
        ip -n "h$n" link set lo up
        ip -n "h$n" addr add "$(host_v4 "$n")/16" dev eth0
        ip -n "h$n" addr add "$(host_v6 "$n")/64" dev eth0 nodad
        ip -n "h$n" route add default via 10.0.255.254
        ip -n "h$n" route add default via 2001:db8:10::fffe
    done
}

# serve COMMAND...: runs it among the servers until the end.
serve() {
    ip netns exec net "$@" >>"$WORK/servers.log" 2>&1 &
}

serve_names() {
    echo 'nameserver 198.51.100.53' >"$WORK/resolv.conf"
    mount --bind "$WORK/resolv.conf" /etc/resolv.conf
    local long
    long=$(printf 'an answer too long for one frame %.0s' $(seq 6))
    serve dnsmasq --keep-in-foreground --conf-file=/dev/null --no-hosts --no-resolv --user=root \
        --pid-file= --bind-interfaces --listen-address=198.51.100.53,2001:db8:64::53 \
        --edns-packet-max=4096 \
        --address=/www.example.net/198.51.100.80 --address=/www.example.net/2001:db8:64::80 \
        --address=/static.example.net/198.51.100.81 --address=/static.example.net/2001:db8:64::81 \
        --address=/api.example.net/198.51.100.82 --address=/api.example.net/2001:db8:64::82 \
        --mx-host=example.net,mail.example.net,10 \
        --txt-record="long.example.net$(printf ',%s' "$long" "$long" "$long" "$long" "$long" \
            "$long" "$long" "$long" "$long")"
}

serve_pages() {
    mkdir -p "$WORK/pages"
    local bytes
    for bytes in 200 700 1500 4000 8000; do
        # Zeros encrypted under a fixed key: text that does not compress, the same each time.
        head -c "$((bytes * 3 / 4))" /dev/zero |
            openssl enc -aes-128-ctr -K 00 -iv 00 2>/dev/null | base64 -w 0 >"$WORK/pages/$bytes"
    done
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=www.example.net -keyout "$WORK/key.pem" -out "$WORK/cert.pem" 2>/dev/null
    cat >"$WORK/nginx.conf" <<NGINX
user root;
daemon off;
pid $WORK/nginx.pid;
error_log $WORK/nginx.log;
events {}
http {
    access_log off;
    server {
        listen 80;
        listen [::]:80;
        listen 443 ssl;
        listen [::]:443 ssl;
        ssl_certificate $WORK/cert.pem;
        ssl_certificate_key $WORK/key.pem;
        root $WORK/pages;
    }
}
NGINX
    serve nginx -e "$WORK/nginx.log" -c "$WORK/nginx.conf"
}

serve_shell() {
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$WORK/host_key"
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$WORK/user_key"
    cat >"$WORK/sshd_config" <<SSHD
HostKey $WORK/host_key
AuthorizedKeysFile $WORK/user_key.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
UseDNS no
ListenAddress 198.51.100.22
ListenAddress 2001:db8:64::22
MaxStartups 100
SSHD
    serve "$(command -v sshd)" -D -e -f "$WORK/sshd_config"
}

serve_time() {
    cat >"$WORK/chrony.conf" <<CHRONY
local stratum 3
allow all
cmdport 0
bindaddress 198.51.100.123
bindaddress 2001:db8:64::123
pidfile $WORK/chrony.pid
CHRONY
    # -x: chronyd only answers; the clock of the machine is not its business.
    serve chronyd -d -x -u root -f "$WORK/chrony.conf"
}

serve_all() {
    serve_names
    serve_pages
    serve_shell
    serve_time
    serve redis-server --bind 198.51.100.63 2001:db8:64::63 --save '' --dir "$WORK" --protected-mode no
    serve socat -u UDP6-RECV:514 /dev/null
    # One address each: bound to all, iperf3 would answer UDP from the address of the uplink.
    local n
    for n in $(seq 12); do
        serve iperf3 --server --port "$((5200 + n))" \
            --bind "$( ((n % 2)) && echo 198.51.100.50 || echo 2001:db8:64::50)"
    done
}

make_network
serve_all
sleep 3
# Stored as pcap first: unlike pcapng it has no room for the name of the machine and its kernel.
# record INTERFACE FILE [OPTION...]: becomes a tcpdump, to be started in the background.
record() {
    exec ip netns exec net tcpdump -i "$1" -s 0 --time-stamp-precision=nano -U \
        -w "$WORK/$2.pcap" "${@:3}" 2>"$WORK/$2.log"
}
interface=uplink
if [ -n "$joined" ]; then
    make_wire
    interface=wire0
    record uplink joined &
    joined_recorder=$!
fi
record "$interface" edge -c "$PACKETS" &
recorder=$!
sleep 1
hosts=()
for n in $(seq "$HOSTS"); do
    ip netns exec "h$n" /mnt/host.sh "$n" >>"$WORK/hosts.log" 2>&1 &
    hosts+=($!)
done
echo "recording $PACKETS packets" >&2
wait "$recorder"
[ -z "$joined" ] || kill "$joined_recorder"
kill "${hosts[@]}" 2>/dev/null || true
cat "$WORK/edge.log" >&2
if [ -n "${DEBUG:-}" ]; then
    sort "$WORK/hosts.log" | uniq -c | sort -rn | head -40 >&2
    grep -vE 'ssh2|isconnect' "$WORK/servers.log" | head -60 >&2
fi
# Packets seen by two processors may be a few microseconds out of order.
# in_order RECORDED FILE [OPTION...]: writes what was recorded, with these options of editcap.
in_order() {
    reordercap "$WORK/$1.pcap" "$WORK/$1-ordered.pcap" >/dev/null
    editcap -F pcapng "${@:3}" "$WORK/$1-ordered.pcap" "$2"
}
in_order edge "/run/out/$(basename "$output")"
if [ -n "$joined" ]; then
    wait "$joined_recorder" || true
    cat "$WORK/joined.log" >&2
    # It ends a little later.
    last=$(capinfos -e -T -r -S "$WORK/edge-ordered.pcap" | cut -f 2)
    in_order joined "/run/joined/$(basename "$joined")" -B "$last"
fi
