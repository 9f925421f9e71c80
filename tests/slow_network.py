"""A switch in user space that delays, reorders and loses frames, for kernels without netem. Each host's network card is
a
tap device whose other end is this process. Prints "ready" once all cards exist, answers every input line with the
number of frames
lost so far, and ends when its standard input ends.

ip netns exec SWITCH python slow_network.py --delay 0.01 --jitter 0.005 --loss 0.02 HOST_NAMESPACE ...
"""

import argparse
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LONGEST_FRAME = 2048  # cards without offloads: the kernel passes on frames that fit the MTU


def make_card(name, host):
    """Opens the file that is the other end of network card `net` of `host`."""
    card = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(card, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", host, "name", "net"], check=True)
    return card


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0, help="seconds from one host to another")
    parser.add_argument("--jitter", type=float, default=0, help="seconds by which the delay varies, both ways")
    parser.add_argument("--loss", type=float, default=0, help="share of the frames that never arrive")
    parser.add_argument("hosts", nargs="+")
    options = parser.parse_args()
    cards = [make_card(f"card{i}", host) for i, host in enumerate(options.hosts)]
    print("ready", flush=True)
    chance = random.Random(1)
    on_the_way = []  # (time of arrival, number, source card, frame)
    carried = lost = 0
    while True:
        wait = max(0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        ready, _, _ = select.select([sys.stdin, *cards], [], [], wait)
        if sys.stdin in ready:
            if not sys.stdin.readline():
                break
            print(lost, flush=True)
            ready.remove(sys.stdin)
        for card in ready:
            frame = os.read(card, LONGEST_FRAME)
            if chance.random() < options.loss:
                lost += 1
                continue
            late = options.delay + chance.uniform(-options.jitter, options.jitter)
            carried += 1
            heapq.heappush(on_the_way, (time.monotonic() + late, carried, card, frame))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, _, origin, frame = heapq.heappop(on_the_way)
            for card in cards:
                if card == origin:
                    continue
                try:
                    os.write(card, frame)
                except OSError:  # its queue is full, or the host has ended: the switch drops the frame
                    pass


main()
