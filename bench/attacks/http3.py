"""Attacks over HTTP/3 and QUIC, by clients with keys and by those who are not even there."""
import asyncio, contextlib, functools, os, pathlib, struct, time, types

import harness, quic
from harness import HTTP3_PEERS
from quic import connected, frame, is_served, stream

attack = functools.partial(harness.attack, peers=HTTP3_PEERS)

QUIC = "crates/quic/src/limits.rs"
OPERATIONS = "docs/operations.md, What clients can make a node hold"
LIMITS = "docs/configuration.md, [limits]"
TABLES = "crates/wire/src/h3/limits.rs"
# crates/net/src/limits.rs
HANDSHAKES_UNASKED_MAX, HANDSHAKES_OPEN_MAX, RESETS_PER_SECOND_MAX = 100, 2000, 200
# RFC 9000 §20.1, RFC 9114 §8.1, RFC 9204 §6
INTERNAL_ERROR, CONNECTION_ID_LIMIT_ERROR, PROTOCOL_VIOLATION, CRYPTO_BUFFER_EXCEEDED, EXCESSIVE_LOAD = 0x1, 0x9, 0xA, 0xD, 0x107
DECOMPRESSION_FAILED = 0x200
HEADERS, PRIORITY_UPDATE = 0x1, 0xF0700


# --- of those who are not there

def answers_to(bed, doors, seconds):
    """What comes to sockets within a time: bytes and kinds of datagrams of each."""
    got, end = {door: [] for door in doors}, time.monotonic() + seconds
    while time.monotonic() < end:
        for door in doors:
            got[door] += quic.arrived(door)
        time.sleep(0.02)
    bed.exchanged(sum(map(len, got.values())))
    return got


@attack(promise="who has not shown where it is gets three times what it sent at most, however long nothing is heard (RFC 9000 §8.1), "
                "and costs nothing while nothing is heard", where=QUIC)
def amplification(bed):
    quic.need()
    bed.start(settings={"tls.handshake_timeout": "3s"}, victim=False)
    to, hello = ("127.0.0.1", bed.tls_port), quic.Hello()
    doors = [quic.opened(harness.ATTACKER) for _ in range(HANDSHAKES_UNASKED_MAX - 10)]
    for door in doors:
        bed.sent(door.sendto(hello.datagram(), to), connections=1)
    came = answers_to(bed, doors, 2)
    # Until all have ended, and what is kept of them to say so again has, too.
    before = bed.server.processor_seconds()
    for door, more in answers_to(bed, doors, 5).items():
        came[door] += more
    spent = bed.server.processor_seconds() - before
    most = max(sum(map(len, datagrams)) for datagrams in came.values())
    bed.note(f"{most} bytes at most for {quic.DATAGRAM_BYTES_MIN}; {spent:.2f} s of processor time in five seconds of silence")
    bed.expect(most <= 3 * quic.DATAGRAM_BYTES_MIN, f"{most} bytes came for {quic.DATAGRAM_BYTES_MIN}")
    bed.expect(spent <= 0.2, f"{spent:.2f} s of processor time were spent on silence")
    bed.expect_memory(connections=len(doors))


@attack(promise="from 100 open handshakes on nothing is kept for who has not answered a Retry, and others come through", where=OPERATIONS)
def hellos_from_nowhere(bed):
    quic.need()
    bed.start()
    to, hello, retries, others = ("127.0.0.1", bed.tls_port), quic.Hello(), 0, 0
    doors = [quic.opened(f"127.9.{number}.1", buffer_bytes=4 << 20) for number in range(1, 9)]
    count = bed.scale(20_000, 2_000)
    for number in range(count):
        bed.sent(doors[number % 8].sendto(hello.datagram(), to), connections=1)
        if number % 200 == 199:
            for door in doors:
                for datagram in quic.arrived(door):
                    retries, others = retries + (quic.kind(datagram)[0] == quic.RETRY), others + 1
            bed.exchanged(others)
        if number == count * 3 // 4:
            bed.expect(bed.run(is_served(bed)), "nobody else came through")
    bed.note(f"{retries} Retries among {others} answers to {count} hellos")
    bed.end_victim()
    bed.expect(retries > count // 2, f"only {retries} had to show where they are")
    bed.expect_memory(connections=HANDSHAKES_UNASKED_MAX)


@attack(promise="2,000 handshakes are open at most, each ends after tls.handshake_timeout, and others come then", where=OPERATIONS)
def handshakes_left_open(bed):
    quic.need()
    bed.start(settings={"tls.handshake_timeout": "4s"})
    to, hello, begun, sent_again = ("127.0.0.1", bed.tls_port), quic.Hello(), 0, 0
    door = quic.opened(harness.ATTACKER, buffer_bytes=16 << 20)
    count = bed.scale(4_000, 600)
    for number in range(count):
        bed.sent(door.sendto(hello.datagram(), to), connections=1)
        if number % 20 != 19:
            continue
        time.sleep(0.002)
        for datagram in quic.arrived(door):
            kind, sender, token = quic.kind(datagram)
            if kind == quic.RETRY:
                bed.sent(door.sendto(hello.datagram(sender, token), to))
                sent_again += 1
            elif kind == quic.INITIAL:
                begun += 1
    bed.exchanged(begun)
    held = bed.server.metrics().get("freshet_connections_open", None) if bed.is_ours else None
    bed.note(f"{sent_again} answered a Retry; {begun} datagrams began one; {held} connections are open")
    open_max = min(count, HANDSHAKES_OPEN_MAX) + 64
    bed.expect(held is None or held <= open_max, f"{held} handshakes are open")
    time.sleep(5)
    bed.expect(bed.run(is_served(bed)), "nobody came through afterwards")
    bed.end_victim()
    bed.expect_memory(connections=min(count, HANDSHAKES_OPEN_MAX))


@attack(promise="what is for no connection is answered 200 times a second at most, and shorter than it came (RFC 9000 §10.3.3)", where="crates/net/src/limits.rs")
def unknown_ids(bed):
    bed.start()
    door, to, began = quic.opened(harness.ATTACKER, buffer_bytes=4 << 20), ("127.0.0.1", bed.tls_port), time.monotonic()
    lengths, count = [], bed.scale(200_000, 20_000)
    for number in range(count):
        bed.sent(door.sendto(bytes([0x40 | number & 0x3F]) + os.urandom(39), to), connections=number == 0)
        if number % 100 == 99:
            lengths += map(len, quic.arrived(door))
    seconds = time.monotonic() - began
    bed.exchanged(len(lengths))
    bed.note(f"{len(lengths)} answers in {seconds:.1f} s to {count} datagrams of 40 bytes")
    bed.end_victim()
    bed.expect(len(lengths) <= RESETS_PER_SECOND_MAX * (seconds + 1), f"{len(lengths)} answers in {seconds:.1f} s")
    bed.expect(max(lengths, default=0) < 40, "an answer is as long as what it answers")
    bed.expect_memory()


@attack(promise="who speaks another version hears which there is in fewer bytes than it sent", where="docs/http3.md")
def unknown_versions(bed):
    bed.start()
    door, to, got = quic.opened(harness.ATTACKER, buffer_bytes=4 << 20), ("127.0.0.1", bed.tls_port), []
    for number in range(bed.scale(50_000, 5_000)):
        head = bytes([0xC0]) + struct.pack(">I", 0x1A2A3A4A) + bytes([20]) + os.urandom(20) + bytes([20]) + os.urandom(20)
        # Every second one is too short for a first datagram.
        bed.sent(door.sendto(head.ljust(1200 if number % 2 else 1199, b"\0"), to), connections=number == 0)
        got += map(len, quic.arrived(door))
    bed.exchanged(len(got))
    bed.note(f"{len(got)} answers of {max(got, default=0)} bytes at most")
    bed.end_victim()
    bed.expect(sum(got) < bed.attacker_bytes / 10 and max(got, default=0) < 1200, "answers are long")
    bed.expect_memory()


# --- of clients with keys

def flooded(bed, code, payloads, **more):
    """Has an attacker send the packets that `payloads` makes of it, and holds the server to end it with this code."""
    quic.need()
    bed.start()

    async def attacker():
        async with connected(bed) as one:
            return await one.flood(payloads(one), **more)

    ended = bed.run(attacker())
    bed.exchanged(ended is not None)
    bed.note(f"ended with {ended if ended is None else hex(ended)} after {bed.attacker_bytes / 1024:.0f} KB")
    bed.end_victim()
    bed.expect(ended == code, f"it ended with {ended if ended is None else hex(ended)}, not {code:#x}")
    bed.expect_memory(connections=1)


@attack(promise="more than 1,024 PINGs and other frames that bring nothing end the connection", where=QUIC)
def ping_flood(bed):
    flooded(bed, PROTOCOL_VIOLATION, lambda one: [frame(quic.PING) * 1000] * 50)


@attack(promise="more than 1,024 PATH_CHALLENGEs at once end the connection, and few of them are answered", where=QUIC)
def path_challenge_flood(bed):
    flooded(bed, PROTOCOL_VIOLATION, lambda one: (b"".join(frame(quic.PATH_CHALLENGE, rest=os.urandom(8)) for _ in range(100)) for _ in range(100)))


@attack(promise="a client that has us take one id after another ends", where=QUIC)
def id_flood(bed):
    flooded(bed, CONNECTION_ID_LIMIT_ERROR, lambda one: (b"".join(one.names(8 + 30 * number + at) for at in range(30)) for number in range(bed.scale(2000, 200))))


@attack(promise="of a handshake that is over no more than 16 KiB is kept, however many gaps it has", where=QUIC)
def crypto_gaps(bed):
    flooded(bed, CRYPTO_BUFFER_EXCEEDED, lambda one: (b"".join(frame(quic.CRYPTO, 3 * (200 * number + at) + 1, 1, rest=b"x") for at in range(200)) for number in range(1000)))


@attack(promise="more than 512 gaps in a stream end the connection", where=QUIC)
def stream_gaps(bed):
    def payloads(one):
        number = one.opens()
        return (b"".join(stream(number, b"x", 2 * (100 * part + at) + 1) for at in range(100)) for part in range(1000))
    flooded(bed, INTERNAL_ERROR, payloads)


@attack(promise="acknowledgements of many ranges that tell nothing new end the connection after 1,024", where=QUIC)
def ack_ranges(bed):
    # Numbers that were all acknowledged already. Four ACK frames are the most that a packet may have.
    again = quic.ack([(number, number) for number in range(58, -2, -2)])

    def payloads(one):
        one.client.ask("/bytes/200000/hot-large")
        return [again * 4] * 1000
    flooded(bed, PROTOCOL_VIOLATION, payloads)


@attack(promise="who acknowledges what it has not received is found out, by numbers that are left out (RFC 9000 §21.4)", where=QUIC)
def optimistic_acks(bed):
    quic.need()
    bed.start(memory_mb=256)

    async def attacker():
        async with connected(bed, max_data=1 << 40, max_stream_data=1 << 40) as one:
            asked = one.client.ask("/bytes/100000000/large")
            asked.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            began, highest = time.monotonic(), 0
            while one.ended is None and time.monotonic() < began + 60:
                await asyncio.sleep(0.001)
                # All up to the highest that came, as if nothing were ever lost.
                highest = max([highest, *one.received()])
                one.send(quic.ack([(0, highest)]))
            return one.ended, highest

    ended, highest = bed.run(attacker())
    bed.note(f"ended with {ended}, {highest} packets after it began")
    bed.exchanged(highest)
    bed.end_victim()
    bed.expect(ended == PROTOCOL_VIOLATION, f"it ended with {ended}")
    bed.expect_memory(connections=1)


@attack(promise="a client that acknowledges nothing holds 192 KiB and its window, and ends after its time", where=OPERATIONS)
def silent_clients(bed):
    quic.need()
    bed.start(settings={"limits.idle_timeout": "5s", "limits.send_timeout": "5s"})
    count = bed.scale(200, 40)

    async def one(index):
        async with connected(bed, max_data=1 << 40, max_stream_data=1 << 40) as one:
            asked = [one.client.ask(f"/bytes/300000/silent-{number}") for number in range(8)]
            for answer in asked:
                answer.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            one.client.transmit()
            # It hears, and says nothing any more.
            one.client._transport.sendto = lambda data, to: None
            return await one.until_ended(1)

    async def attacker():
        await asyncio.gather(*(one(index) for index in range(count)))

    bed.run(attacker())
    deadline, left = time.monotonic() + 20, 0
    while bed.is_ours and (left := bed.server.metrics()["freshet_connections_open"]) > 4 and time.monotonic() < deadline:
        time.sleep(0.2)
    bed.note(f"{left:.0f} connections are left")
    bed.end_victim()
    bed.expect(left <= 4, f"{left:.0f} connections are left")
    bed.expect_memory(connections=count, more_mb=count * (192 << 10) / 1e6)


@attack(promise="packets that are not of whom they say cost a look, and end nothing", where=QUIC)
def forged_packets(bed):
    quic.need()
    bed.start()

    async def attacker():
        async with connected(bed) as one:
            head, door = bytes([0x43]) + one.quic._peer_cid.cid, quic.opened(harness.ATTACKER)
            for number in range(bed.scale(100_000, 10_000)):
                with contextlib.suppress(BlockingIOError):
                    bed.sent(door.sendto(head + os.urandom(1150), ("127.0.0.1", bed.tls_port)))
                if number % 50 == 49:
                    await asyncio.sleep(0.001)
            return (await one.client.get("/bytes/1000/hot-2")).status

    status = bed.run(attacker())
    bed.exchanged()
    bed.end_victim()
    bed.expect(status == b"200", f"its own request was {status}")
    bed.expect_memory(connections=1)


@attack(promise="a client that moves with every packet gets three times what it sends at most where it is, and nothing is kept of places it left", where=QUIC)
def moves(bed):
    quic.need()
    bed.start()

    async def attacker():
        async with connected(bed) as one:
            sent, came = 0, 0
            for number in range(bed.scale(5_000, 500)):
                with contextlib.closing(quic.opened(f"127.9.{number % 100 + 1}.1")) as door:
                    packet = one.sealed(frame(quic.PING).ljust(60, b"\0"))
                    sent += door.sendto(packet, ("127.0.0.1", bed.tls_port))
                    await asyncio.sleep(0.002)
                    came += sum(map(len, quic.arrived(door)))
                if one.ended is not None:
                    break
            bed.sent(sent)
            return sent, came, one.ended

    sent, came, ended = bed.run(attacker())
    bed.note(f"{came} bytes came for {sent}; ended with {ended}")
    bed.exchanged(came)
    bed.end_victim()
    bed.expect(came <= 3 * sent, f"{came} bytes came for {sent}")
    bed.expect_memory(connections=1)


@attack(promise="requests that were recorded before a handshake was over (0-RTT) and are sent again do nothing, wherever they come from, and cost a "
                "handshake at most", where="docs/http3.md, Early data", peers=())
def replayed_early_data(bed):
    quic.need()
    bed.start(more=["--config", early_listener(bed)])
    asked, spent = "/bytes/10/early-pay", "freshet_requests_early_total"

    async def victim():
        """Somebody who was here before asks early, and is recorded."""
        node, tickets = quic.aioquic_client.Node(bed.early_port, bed.server.certificate, 0), []
        async with node.client(tickets=tickets) as client:
            await client.get("/bytes/1000/hot-0")
            await quic.aioquic_client.until(lambda: tickets, "no ticket came")
        async with node.client(session_ticket=tickets[0], waits=False) as client:
            client.recorded = []
            answers = [client.ask("/bytes/1000/hot-0"), client.ask(asked, method="POST", body=b"100 crowns")]
            recorded = list(client.recorded)
            for answer in answers:
                bed.exchanged((await answer.ended).status == b"200")
            bed.expect(client._quic.tls.early_data_accepted, "early data was not taken")
        return recorded

    recorded = bed.run(victim())
    early, paid = bed.server.metrics()[spent], sum(request.target == asked for request in bed.origin.requests)
    doors = [quic.opened(source, buffer_bytes=4 << 20) for source in ("127.0.0.1", harness.ATTACKER) for _ in range(4)]
    answers = 0
    for number in range(bed.scale(4_000, 400)):
        for datagram in recorded:
            bed.sent(doors[number % 8].sendto(datagram, ("127.0.0.1", bed.early_port)), connections=1)
        time.sleep(0.002)
        answers += sum(1 for _ in quic.arrived(doors[number % 8]))
    bed.exchanged(answers)
    time.sleep(1)
    early, paid_again = bed.server.metrics()[spent] - early, sum(request.target == asked for request in bed.origin.requests)
    bed.note(f"{len(recorded)} datagrams were recorded; {answers} answers came; {early:.0f} requests were taken early; the origin was asked {paid_again} times")
    bed.end_victim()
    bed.expect((early, paid, paid_again) == (0, 1, 1), f"{early:.0f} requests were taken, and {paid_again} reached the origin")
    bed.expect_memory(connections=HANDSHAKES_UNASKED_MAX)


def early_listener(bed):
    """A file with a listener that takes early data, which the attack goes to."""
    bed.early_port, file = harness.servers.free_port(), pathlib.Path(bed.base, "early.toml")
    file.write_text(f'[[listen]]\naddress = "127.0.0.1:{bed.early_port}"\ntls = true\nearly_data = true\n')
    return file


# --- of requests

def fields(path, more=b""):
    """A head by the static table (RFC 9204): GET, https, the host, and a path."""
    host, path = b"localhost", path.encode()
    return b"\0\0" + bytes([0xD1, 0xD7, 0x50, len(host)]) + host + bytes([0x51]) + prefixed(len(path), 7) + path + more


def prefixed(number, bits):
    """An integer behind a prefix of so many bits that are its first byte's lowest (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    out, number = [most], number - most
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def heads(path, more=b""):
    """The frame with such a head."""
    block = fields(path, more)
    return quic.varint(HEADERS) + quic.varint(len(block)) + block


@attack(promise="a client that resets what it asks for is sent away (rapid reset)", where="docs/operations.md")
def rapid_reset(bed):
    def payloads(one):
        for number in range(bed.scale(100_000, 5_000)):
            of, head = one.opens(), heads(f"/bytes/1000/reset-{number}")
            yield stream(of, head, ends=True) + frame(quic.RESET_STREAM, of, 0x10C, len(head)) + frame(quic.STOP_SENDING, of, 0x10C)
    flooded(bed, EXCESSIVE_LOAD, payloads, pause_every=5)
    reached = sum("/reset" in request.target for request in bed.origin.requests)
    bed.note(f"{reached} requests reached the origin")
    bed.expect(reached <= 1_024, f"{reached} requests reached the origin")


@attack(promise="a head that refers to what was not told yet ends the connection: nothing waits for it", where=TABLES)
def qpack_blocked(bed):
    # Required Insert Count 128: all that a table of 4 KiB ever has at once (RFC 9204 §4.5.1).
    head = b"\x81\x00" + fields("/bytes/10/blocked")[2:]
    data = quic.varint(HEADERS) + quic.varint(len(head)) + head
    flooded(bed, DECOMPRESSION_FAILED, lambda one: [stream(one.opens(), data, ends=True)])


@attack(promise="more than 1,024 changes of a table that no head refers to end the connection", where=TABLES)
def qpack_inserts(bed):
    # Insert with literal name (RFC 9204 §4.3.3).
    entries = b"".join(b"\x43x%02d\x05value" % (at % 100) for at in range(100))

    def payloads(one):
        http = one.client.h3()
        number = http._local_encoder_stream_id
        # Its own encoder knows nothing of these entries, and would end the connection when the server says that it has them.
        http._encoder = types.SimpleNamespace(feed_decoder=lambda said: None)
        at, said = one.written(number), b"\x3f\xe1\x1f" + entries
        for _ in range(100):
            yield stream(number, said, at)
            at, said = at + len(said), entries
    flooded(bed, EXCESSIVE_LOAD, payloads, pause_every=2)


@attack(promise="more than 1,024 PRIORITY_UPDATEs at once end the connection (RFC 9218 §7.2)", where="crates/wire/src/h3/limits.rs")
def priority_update_flood(bed):
    def payloads(one):
        control = one.client.h3()._local_control_stream_id
        at, update = one.written(control), frame(PRIORITY_UPDATE, 5, 400, rest=b"u=%d")
        for number in range(200):
            said = b"".join(update % (each % 8) for each in range(64))
            yield stream(control, said, at)
            at += len(said)
    flooded(bed, EXCESSIVE_LOAD, payloads, pause_every=2)


@attack(promise="heads that a few bytes stand for are counted as large as they are: limits.requests_bytes_max", where=OPERATIONS)
def heads_that_wait(bed):
    quic.need()

    async def answer(request, writer):
        if "stall" not in request.target:
            return await harness.plain_answer(request, writer)
        await asyncio.sleep(60)

    bed.start(answer=answer)
    connections, streams = bed.scale(60, 15), 100
    # 7,000 times "0", of five bits each in Huffman's code (RFC 7541 §5.2).
    length = prefixed(4375, 7)
    more = b"\x21x" + bytes([length[0] | 0x80]) + length[1:] + bytes(4375)

    async def one(index):
        async with connected(bed) as one:
            for number in range(streams):
                of, head = one.opens(), heads(f"/stall/{index}-{number}", more)
                for at in range(0, len(head), 1000):
                    part = head[at:at + 1000]
                    one.send(stream(of, part, at, at + len(part) == len(head)))
                await asyncio.sleep(0.005)
            await asyncio.sleep(3)

    async def attacker():
        await asyncio.gather(*(one(index) for index in range(connections)))

    bed.run(attacker())
    bed.note(f"{len(bed.origin.requests)} requests reached the origin")
    bed.exchanged(connections)
    bed.end_victim(failures_max=10**9)
    bed.expect_memory(connections=connections)


@attack(promise="a body that stops ends after limits.body_timeout", where=LIMITS)
def stalled_bodies(bed):
    quic.need()
    bed.start(settings={"limits.body_timeout": "3s"})
    streams = bed.scale(100, 20)

    async def attacker():
        async with connected(bed) as one:
            asked = []
            for number in range(streams):
                answer = one.client.ask(f"/bytes/10/stalled-{number}", method="POST", fields=[("content-length", "100")], body=b"x", ends=False)
                asked.append(answer.ended)
            done, _ = await asyncio.wait(asked, timeout=15)
            for ended in done:
                ended.exception()
            return len(done)

    ended = bed.run(attacker())
    bed.exchanged(ended)
    bed.note(f"{ended} of {streams} ended")
    bed.end_victim()
    bed.expect(ended == streams, f"{streams - ended} bodies were waited for on and on")
    bed.expect_memory(connections=1)
