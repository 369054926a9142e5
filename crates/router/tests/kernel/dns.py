"""dns.py ADDRESS PORT NAME=IPV4...: answers for names over UDP, which hold for five seconds."""

import socket
import struct
import sys

names = dict(one.split("=") for one in sys.argv[3:])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    question, client = server.recvfrom(512)
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind = struct.unpack_from("!H", question, at + 1)[0]
    address = names.get(".".join(labels)) if kind == 1 else None
    answer = b""
    if address:
        answer = struct.pack("!HHHIH", 0xc00c, 1, 1, 5, 4) + socket.inet_aton(address)
    flags = 0x8180
    header = question[:2] + struct.pack("!HHHHH", flags, 1, 1 if answer else 0, 0, 0)
    server.sendto(header + question[12:at + 5] + answer, client)
