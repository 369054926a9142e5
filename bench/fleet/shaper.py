#!/usr/bin/env python3
"""A way between two network devices that takes its time and loses frames, for where the kernel has no netem.

usage: shaper.py --link DEVICE --bridge BRIDGE [--delay-ms 20] [--jitter-ms 5] [--loss-percent 1] [--seed 1]

Takes DEVICE off BRIDGE and carries its frames to and fro itself, each way with the delay and as much as the jitter more, in their order; the
share that is lost is drawn from the seed. It says "ready" once it does, and puts DEVICE back when it is told to end. Who sends through
DEVICE has to finish checksums itself: `ethtool -K eth0 tx off` at its other end.
"""
import argparse, collections, fcntl, os, random, select, signal, socket, struct, subprocess, sys, time

ETH_P_ALL, PACKET_OUTGOING = 3, 4
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
# As many frames as a way holds; those beyond are lost, as in a router.
FRAMES_MAX = 10_000


class Way:
    """One direction."""

    def __init__(self, given, seed, send):
        self.given, self.chance, self.send = given, random.Random(seed), send
        self.frames, self.last = collections.deque(), 0.0

    def take(self, frame, now):
        if self.chance.uniform(0, 100) < self.given.loss_percent or len(self.frames) >= FRAMES_MAX:
            return
        due = now + (self.given.delay_ms + self.chance.uniform(0, self.given.jitter_ms)) / 1e3
        self.last = max(self.last, due)
        self.frames.append((self.last, frame))

    def give(self, now):
        """Sends what is due; when the next one is."""
        while self.frames and self.frames[0][0] <= now:
            try:
                self.send(self.frames.popleft()[1])
            except OSError:
                pass
        return self.frames[0][0] if self.frames else None


def tap(bridge):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"", IFF_TAP | IFF_NO_PI))[:16].rstrip(b"\0").decode()
    subprocess.run(["ip", "link", "set", name, "master", bridge, "up"], check=True)
    return device


def drain(read, way, now):
    """Takes what is there, up to a batch."""
    for _ in range(256):
        try:
            frame = read()
        except BlockingIOError:
            return
        if frame is not None:
            way.take(frame, now)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--link", required=True)
    parser.add_argument("--bridge", required=True)
    for name, default in (("delay-ms", 20.0), ("jitter-ms", 5.0), ("loss-percent", 1.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    subprocess.run(["ip", "link", "set", given.link, "nomaster"], check=True)
    try:
        device = tap(given.bridge)
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        link.bind((given.link, 0))
        link.setblocking(False)

        def from_link():
            frame, address = link.recvfrom(65536)
            return frame if address[2] != PACKET_OUTGOING else None

        away = Way(given, given.seed, lambda frame: os.write(device, frame))
        back = Way(given, given.seed + 1, link.send)
        print("ready", flush=True)
        due = None
        while True:
            wait = None if due is None else max(0, due - time.monotonic())
            select.select([link, device], [], [], wait)
            now = time.monotonic()
            drain(from_link, away, now)
            drain(lambda: os.read(device, 65536), back, now)
            due = min((each for each in (away.give(now), back.give(now)) if each is not None), default=None)
    finally:
        subprocess.run(["ip", "link", "set", given.link, "master", given.bridge], check=False)


if __name__ == "__main__":
    sys.exit(main())
