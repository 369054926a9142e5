"""Attacks on TLS before there is a session."""
import asyncio, ssl

import wire
from harness import attack

HANDSHAKE = "docs/configuration.md, tls.handshake_timeout"


def hello():
    """The first message of a client, as OpenSSL makes it."""
    context = ssl._create_unverified_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def in_records(record, size):
    """The same message in records of `size` bytes."""
    message = record[5:]
    parts = [message[at:at + size] for at in range(0, len(message), size)]
    return [record[:3] + len(part).to_bytes(2, "big") + part for part in parts]


def slow_ones(bed, parts, count, seconds):
    async def attacker():
        held = await wire.connect_many(bed.tls_port, count)
        bed.sent(0, connections=count)
        return await asyncio.gather(*(wire.drip(bed, one, parts, seconds + 30) for one in held))

    lives = bed.ended(bed.run(attacker()))
    bed.end_victim()
    bed.expect(len(lives) == count, f"{count - len(lives)} of {count} slow hellos were not ended")
    bed.expect(max(lives, default=0) < seconds * 2 + 15, "a slow hello lived on")
    bed.expect_memory(connections=count)


@attack(promise="a hello that comes a byte at a time ends after tls.handshake_timeout", where=HANDSHAKE, peers=("nginx", "haproxy"))
def slow_hellos(bed):
    bed.start(settings={"tls.handshake_timeout": "3s"})
    slow_ones(bed, [bytes([byte]) for byte in hello()], bed.scale(5_000, 300), 3)


@attack(promise="a hello in records of a byte, slowly, ends after tls.handshake_timeout", where=HANDSHAKE, peers=("nginx", "haproxy"))
def slow_fragments(bed):
    bed.start(settings={"tls.handshake_timeout": "3s"})
    slow_ones(bed, in_records(hello(), 1), bed.scale(5_000, 300), 3)


@attack(promise="records that are cut, forged or not of a handshake end the connection, and nothing else", where="RFC 8446 §6.2", peers=("nginx", "haproxy"))
def broken_records(bed):
    bed.start()
    first = hello()
    forms = [
        first[:3] + b"\xff\xff" + first[5:],  # longer than a record may be
        first[:20],  # cut
        b"\x17" + first[1:],  # data before a handshake
        first[:5] + bytes(len(first) - 5),  # zeros
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",  # a message of 16 MB begins
        b"\x15\x03\x03\x00\x02\x02\x00" * 100,  # alerts
        b"GET / HTTP/1.1\r\n\r\n",
    ]
    count = bed.scale(5_000, 350)

    async def one(index):
        reader, writer = await wire.connect(bed.tls_port)
        form = forms[index % len(forms)]
        bed.sent(len(form), connections=1)
        try:
            writer.write(form)
            if len(form) == 20:
                writer.write_eof()
            return await wire.ended(reader, 15)
        except ConnectionError:
            return True
        finally:
            writer.close()

    async def attacker():
        gate = asyncio.Semaphore(100)

        async def limited(index):
            async with gate:
                return await one(index)
        return await asyncio.gather(*(limited(index) for index in range(count)))

    ended = bed.run(attacker())
    bed.exchanged(sum(ended))
    bed.end_victim()
    # An unfinished message of 16 MB may be waited for.
    bed.expect(sum(ended) >= count - count // len(forms) - 1, f"{count - sum(ended)} of {count} connections stayed")
    bed.expect_memory(connections=100)
