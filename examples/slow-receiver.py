# SPDX-License-Identifier: MIT OR Apache-2.0
"""A UDP receiver that works on each datagram for longer than the sender takes to send it.

    python3 slow-receiver.py            receives on 127.0.0.1:5401 for 10 s
    python3 slow-receiver.py send       sends 20,000 datagrams per second to it for 10 s
"""
import socket
import sys
import time

ADDRESS = ("127.0.0.1", 5401)
SECONDS = 10
DATAGRAMS_PER_S = 20_000
BATCH = 100


def send(udp):
    start = time.monotonic()
    for number in range(SECONDS * DATAGRAMS_PER_S // BATCH):
        for _ in range(BATCH):
            udp.sendto(bytes(64), ADDRESS)
        time.sleep(max(0, start + (number + 1) * BATCH / DATAGRAMS_PER_S - time.monotonic()))


def receive(udp):
    udp.bind(ADDRESS)
    udp.settimeout(1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            data = udp.recv(2048)
        except TimeoutError:
            continue
        sum(data * 400)


udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
send(udp) if sys.argv[1:] == ["send"] else receive(udp)
