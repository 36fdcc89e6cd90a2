#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Activity of inside host number $1 until it is killed. Started by record.sh in the namespace of the
# host.
#
# Every host browses, resolves, logs, asks for the time and so on, in an order drawn from a generator
# seeded by its number. Twelve of them also keep one stream open all the time: a bulk transfer up or
# down, at a rate that does not drown the others, or a voice-like stream of small packets.
set -u
n=$1
RANDOM=$n

# Even numbers prefer IPv6, odd ones IPv4; each does a part in the other family.
family() {
    if ((RANDOM % 4 == 0)); then echo $((n % 2 ? 6 : 4)); else echo $((n % 2 ? 4 : 6)); fi
}
server() { if [ "$1" = 4 ]; then echo "198.51.100.$2"; else echo "2001:db8:64::$2"; fi; }
one_of() { local list=("$@"); echo "${list[RANDOM % $#]}"; }

pages() {
    local site urls=() i
    site=$(one_of http://www.example.net http://static.example.net https://api.example.net)
    for ((i = 0; i < 1 + RANDOM % 3; i++)); do
        urls+=("$site/$(one_of 200 700 1500 4000 8000 8000)")
    done
    curl -s -k -m 5 "-$(family)" "${urls[@]}" >/dev/null
}

names() {
    dig +time=1 +tries=1 "@$(server "$(family)" 53)" \
        "$(one_of www static api)".example.net "$(one_of A AAAA)" \
        example.net MX "h$((RANDOM % 50)).example.net" A >/dev/null
}

long_name() {
    dig +time=1 +tries=1 +ignore +bufsize=4096 "@$(server "$(family)" 53)" long.example.net TXT >/dev/null
}

store() {
    local at key=k$((RANDOM % 100))
    at=$(server "$(family)" 63)
    redis-cli -h "$at" SET "$key" "$(printf '%0*d' $((20 + RANDOM % 600)) 0)" >/dev/null
    redis-cli -h "$at" -r $((1 + RANDOM % 4)) -i 0.2 "$(one_of GET STRLEN TTL)" "$key" >/dev/null
}

# A key exchange that dissectors have long known.
shell() {
    local command
    command=$(one_of 'uptime' 'seq 300' 'head -c 3000 /dev/zero | base64')
    ssh -F none -i /tmp/record/user_key -o BatchMode=yes -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5 -o KexAlgorithms=curve25519-sha256 -q \
        "root@$(server "$(family)" 22)" "$command" >/dev/null
}

clock() { ntpdig -t 1 "$(server "$(family)" 123)" >/dev/null; }

log() {
    local filler
    filler=$(printf '%0*d' $((1 + RANDOM % 120)) 0)
    logger -d -n "$(server "$(family)" 14)" -P 514 --rfc5424=notq -t "app$((RANDOM % 5))" \
        "request $RANDOM from unit $n took $((RANDOM % 900)) ms, trace $filler"
}

echoes() {
    ping -q -c 2 -i 0.3 -W 1 -s "$((RANDOM % 400))" "$(server "$(family)" 80)" >/dev/null
}

fragments() { ping -q -c 1 -W 1 -s 3000 "$(server "$(family)" 80)" >/dev/null; }

stream() {
    local f port=$((5200 + n))
    f=$((n % 2 ? 4 : 6))
    set -- --client "$(server $f 50)" --port "$port" --time 600
    case $((n % 4)) in
        0) iperf3 "$@" --udp --length 160 --bitrate 12k ;;
        1) iperf3 "$@" --length 1400 --bitrate 96k --set-mss 1400 ;;
        2) iperf3 "$@" --length 1400 --bitrate 96k --reverse ;;
        3) iperf3 "$@" --udp --length 1200 --bitrate 32k --reverse ;;
    esac >/dev/null
}

if ((n <= 12)); then stream & fi
while :; do
    sleep "0.$((6 + RANDOM % 4))"
    case $((RANDOM % 32)) in
        [0-7]) pages ;;
        8 | 9 | 1[0-4]) names ;;
        1[5-9]) store ;;
        20) shell ;;
        2[1-2]) clock ;;
        2[3-6]) log ;;
        2[7-9]) echoes ;;
        30) if ((RANDOM % 3 == 0)); then fragments; else log; fi ;;
        31) if ((RANDOM % 3 == 0)); then long_name; else names; fi ;;
    esac
done
