"""One end of GTP-U tunnels: a base station with its client, or a core's user plane.

emulator.py TUN "" ADDRESS... reads lines of JSON that set where packets go:
{"local": 0, "peer": "10.0.0.1", "teid": 7, "qfi": 9}; qfi 0 is 4G. Packets come back on any of its
addresses, with any identifier. With VLAN,DEVICE,MAC for "" frames are made by hand, with that tag and
for the neighbour of that address: it takes no interface of the VLAN.
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


def checksum(words):
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Tagged:
    """As a UDP socket, in a VLAN of a device."""

    AUXDATA, STATUS_TAGGED = 8, 1 << 4

    def __init__(self, vlan, device, mac, address):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(263, self.AUXDATA, 1)
        self.socket.bind((device, 0))
        self.vlan, self.address = int(vlan), socket.inet_aton(address)
        own = open(f"/sys/class/net/{device}/address").read().strip()
        macs = bytes.fromhex((mac + own).replace(":", ""))
        self.link = macs + struct.pack("!HHH", 0x8100, self.vlan, 0x0800)

    def fileno(self):
        return self.socket.fileno()

    def sendto(self, payload, to):
        length = len(payload) + 28
        start = struct.pack("!BBHHHBB", 0x45, 0, length, 0, 0x4000, 64, 17)
        ends = self.address + socket.inet_aton(to[0])
        header = start + struct.pack("!H", checksum(start + b"\0\0" + ends)) + ends
        udp = struct.pack("!HHHH", PORT, PORT, length - 20, 0)
        self.socket.send(self.link + header + udp + payload)

    def recv(self, size):
        """The payload of a datagram to here in the VLAN, whose tag the kernel hands over beside it."""
        frame, beside, _, sender = self.socket.recvmsg(size, 64)
        for _, kind, data in beside:
            status, _, _, _, _, tag = struct.unpack_from("IIIHHH", data)
            is_ours = kind == self.AUXDATA and status & self.STATUS_TAGGED and tag & 0xFFF == self.vlan
            if is_ours and sender[2] != socket.PACKET_OUTGOING and frame[30:34] == self.address:
                return frame[14 + 20 + 8:]
        return b""


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
    for address in sys.argv[3:]:
        if sys.argv[2]:
            ends.append(Tagged(*sys.argv[2].split(","), address))
            continue
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
