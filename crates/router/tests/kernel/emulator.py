"""One end of GTP-U tunnels: a base station with its client, or a core's user plane.

emulator.py TUN ADDRESS... reads lines of JSON that set where packets go:
{"local": 0, "peer": "10.0.0.1", "teid": 7, "qfi": 9}; qfi 0 is 4G. Packets come back on any of its
addresses, with any identifier.
"""

import fcntl
import json
import os
import select
import socket
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
PORT = 2152


def unwrapped(datagram):
    """The packet inside, or nothing."""
    if len(datagram) < 8 or datagram[1] != 255:
        return None
    at = 8
    if datagram[0] & 7:
        following = datagram[11] if datagram[0] & 4 else 0
        at = 12
        while following:
            length = datagram[at] * 4
            following = datagram[at + length - 1]
            at += length
    return datagram[at:]


def main():
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", sys.argv[1].encode(), IFF_TUN | IFF_NO_PI))
    ends = []
    for address in sys.argv[2:]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        end = socket.socket(family, socket.SOCK_DGRAM)
        end.bind((address, PORT))
        ends.append(end)
    way = None
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([tun, sys.stdin.buffer.raw, *ends], [], [])
        for one in readable:
            if one is tun:
                packet = os.read(tun, 65536)
                if way is None:
                    continue
                if way["qfi"]:
                    kind = 0x10 if sys.argv[1].startswith("ue") else 0
                    header = struct.pack("!BBHIHBBBBBB", 0x34, 255, len(packet) + 8, way["teid"],
                                         0, 0, 0x85, 1, kind, way["qfi"], 0)
                else:
                    header = struct.pack("!BBHI", 0x30, 255, len(packet), way["teid"])
                try:
                    ends[way["local"]].sendto(header + packet, (way["peer"], PORT))
                except OSError as error:
                    print(error, file=sys.stderr)
            elif one in ends:
                packet = unwrapped(one.recv(65536))
                if packet:
                    os.write(tun, packet)
            else:
                line = one.readline()
                if not line:
                    return
                way = json.loads(line)
                print("set", flush=True)


main()
