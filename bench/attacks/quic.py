"""Packets of QUIC as an attacker wants them: the handshake is aioquic's, and what is sent under its keys is not.

aioquic is looked for where this Python finds it and in `.cache/http3-clients` (tools/setup makes that); an
attack is skipped where it is in neither.
"""
import asyncio, contextlib, os, pathlib, socket, struct, sys

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/http3")]
sys.path += [str(folder) for folder in ROOT.glob(".cache/http3-clients/lib/python*/site-packages")]
try:
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection, QuicConnectionId
    from aioquic.quic.crypto import CryptoPair
    from aioquic.tls import Epoch
    import aioquic_client
    MISSING = None
except ImportError as error:
    MISSING = f"aioquic is missing ({error}): tools/setup test"

VERSION_1 = 1
DATAGRAM_BYTES_MIN = 1200
# Frames (RFC 9000 §19).
PADDING, PING, ACK, RESET_STREAM, STOP_SENDING, CRYPTO, STREAM, MAX_STREAM_DATA = 0, 1, 2, 4, 5, 6, 8, 0x11
NEW_CONNECTION_ID, PATH_CHALLENGE = 0x18, 0x1A
# Of the first byte of a long head (RFC 9000 §17.2).
INITIAL, RETRY = 0, 3


def need():
    if MISSING:
        raise harness.Skipped(MISSING)


def varint(number):
    for size, mark in ((1, 0), (2, 1), (4, 2), (8, 3)):
        if number < 1 << (8 * size - 2):
            return (number | mark << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(number)


def frame(kind, *numbers, rest=b""):
    return varint(kind) + b"".join(varint(number) for number in numbers) + rest


def stream(number, data, offset=0, ends=False):
    return frame(STREAM | 6 | ends, number, offset, len(data), rest=data)


def ack(ranges):
    """Of ranges of numbers, both ends included, from the highest."""
    (low, high), *others = ranges
    out = frame(ACK, high, 0, len(others), high - low)
    for first, last in others:
        out += varint(low - last - 2) + varint(last - first)
        low = first
    return out


def opened(source="127.0.0.1", nonblocking=True, buffer_bytes=None):
    """A socket of its own for an attacker at an address of its own."""
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if buffer_bytes:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    door.bind((source, 0))
    door.setblocking(not nonblocking)
    return door


def arrived(door):
    """The datagrams that are there."""
    with contextlib.suppress(BlockingIOError):
        while True:
            yield door.recv(65536)


class Hello:
    """A client's first packet, again and again: only whom it is for and its token differ, so that it is cheap to make."""

    def __init__(self):
        made = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost")
        client = QuicConnection(configuration=made)
        client.connect(("127.0.0.1", 1), now=0.0)
        hello = bytes(client._crypto_streams[Epoch.INITIAL].sender._buffer)
        self.own = client.host_cid
        self.payload = frame(CRYPTO, 0, len(hello), rest=hello)

    def datagram(self, receiver=None, token=b"", payload=None):
        receiver = receiver or os.urandom(8)
        head = bytes([0xC3]) + struct.pack(">I", VERSION_1) + bytes([len(receiver)]) + receiver + bytes([len(self.own)]) + self.own
        head += varint(len(token)) + token
        number = struct.pack(">I", 0)
        # A length of two bytes, the number, and the tag of 16.
        payload = (payload or self.payload).ljust(DATAGRAM_BYTES_MIN - len(head) - 2 - 4 - 16, b"\0")
        head += struct.pack(">H", 0x4000 | (4 + len(payload) + 16)) + number
        keys = CryptoPair()
        keys.setup_initial(receiver, is_client=True, version=VERSION_1)
        return keys.encrypt_packet(head, payload, 0)


def kind(datagram):
    """The kind of a long head and, of a Retry, the id to go on with and the token."""
    if not datagram[0] & 0x80:
        return None, b"", b""
    of = datagram[0] >> 4 & 3
    at = 6 + datagram[5]
    sender = datagram[at + 1:at + 1 + datagram[at]]
    return of, sender, datagram[at + 1 + datagram[at]:-16] if of == RETRY else b""


class Attacker:
    """A client whose handshake is over, and which says what it likes."""

    def __init__(self, bed, client):
        self.bed, self.client, self.quic = bed, client, client._quic
        self.to = self.quic._network_paths[0].addr

    def opens(self):
        """The number of a new stream both ways, which aioquic knows of, so that it bears what comes on it."""
        number = self.quic.get_next_available_stream_id()
        self.quic._get_or_create_stream_for_send(number)
        return number

    def written(self, number):
        """The end of what aioquic has written to a stream."""
        return self.quic._streams[number].sender._buffer_stop

    def names(self, sequence):
        """The frame that has the server use a new id, and none before it; aioquic knows it too."""
        made = QuicConnectionId(os.urandom(8), sequence, os.urandom(16), True)
        self.quic._host_cids.append(made)
        self.quic._host_cid_seq = sequence + 1
        return frame(NEW_CONNECTION_ID, sequence, sequence, rest=bytes([8]) + made.cid + made.stateless_reset_token)

    def sealed(self, frames):
        """A packet with these frames."""
        number, keys = self.quic._packet_number, self.quic._cryptos[Epoch.ONE_RTT]
        self.quic._packet_number += 1
        head = bytes([0x43 | keys.send.key_phase << 2]) + self.quic._peer_cid.cid + struct.pack(">I", number)
        return keys.encrypt_packet(head, frames, number)

    def send(self, *payloads):
        for payload in payloads:
            if self.is_over:
                break
            packet = self.sealed(payload)
            self.client._transport.sendto(packet, self.to)
            self.bed.sent(len(packet))

    @property
    def ended(self):
        """The code that the server ended it with, if it has."""
        return self.client.ended and self.client.ended.error_code

    @property
    def is_over(self):
        return self.client.ended is not None or not self.quic._cryptos[Epoch.ONE_RTT].send.is_valid()

    def received(self):
        """Numbers of packets that came and were not acknowledged, from the lowest."""
        return [number for numbers in self.quic._spaces[Epoch.ONE_RTT].ack_queue for number in numbers]

    async def until_ended(self, seconds=20):
        """The code that the server ends it with; `None` where it does not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.ended is None:
                    await asyncio.sleep(0.01)
        return self.ended

    async def flood(self, payloads, pause_every=20, seconds=20):
        """Sends packets until the server has had enough, and says with which code it ended the connection. It has time to
        read meanwhile: what the kernel drops shows nothing."""
        for number, payload in enumerate(payloads):
            if self.is_over:
                break
            self.send(payload)
            if number % pause_every == pause_every - 1:
                await asyncio.sleep(0.001)
        return await self.until_ended(seconds)


@contextlib.asynccontextmanager
async def connected(bed, **more):
    """An attacker's connection, which has got an answer already."""
    node = aioquic_client.Node(bed.tls_port, bed.server.certificate, 0)
    async with node.client(**more) as client:
        answer = await client.get("/bytes/1000/hot-0")
        bed.expect(answer.status == b"200", f"its first request was {answer.status}")
        bed.sent(0, connections=1)
        bed.exchanged()
        try:
            yield Attacker(bed, client)
        finally:
            with contextlib.suppress(Exception):
                client._quic.close()


async def is_served(bed, seconds=10):
    """Whether somebody who comes now gets a right answer over HTTP/3."""
    try:
        async with asyncio.timeout(seconds):
            async with aioquic_client.Node(bed.tls_port, bed.server.certificate, 0).client() as client:
                answer = await client.get("/bytes/1000/hot-1")
                return bytes(answer.body) == harness.body_of("/bytes/1000/hot-1", 1000)
    except (TimeoutError, ConnectionError, AssertionError):
        return False
