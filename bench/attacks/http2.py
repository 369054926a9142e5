"""Attacks over HTTP/2."""
import asyncio, struct

import harness, wire
from harness import attack

LIMITS = "docs/configuration.md, [limits]"
MEMORY = "docs/operations.md, What clients can make a node hold"


@attack(promise="a client that resets what it asks for is sent away (rapid reset)", where="docs/operations.md", peers=("nginx", "haproxy"))
def rapid_reset(bed):
    bed.start()
    count = bed.scale(200_000, 5_000)

    async def attacker():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        said = asyncio.create_task(goodbye(reader))
        for number in range(count):
            stream = 2 * number + 1
            both = wire.request(stream, f"/bytes/1000/reset-{number}", scheme="https") + wire.frame(wire.RST_STREAM, 0, stream, b"\0\0\0\x08")
            writer.write(both)
            bed.sent(len(both))
            if number % 100 == 99:
                await asyncio.sleep(0)
                if said.done():
                    break
        async with asyncio.timeout(20):
            return await said

    async def goodbye(reader):
        """Until the connection ends, with a GOAWAY or before it could be read."""
        while await wire.read_frame(reader) is not None:
            bed.exchanged()
        bed.exchanged()
        return True

    try:
        was_sent_away = bed.run(attacker())
    except TimeoutError:
        was_sent_away = False
    bed.note(f"{len(bed.origin.requests)} requests reached the origin")
    bed.end_victim()
    bed.expect(was_sent_away, "it was never sent away")
    bed.expect_memory(connections=1)


async def until_goodbye(bed, reader, seconds):
    """Whether the server ends the connection, with a GOAWAY or without one, within this time."""
    try:
        async with asyncio.timeout(seconds):
            while (frame := await wire.read_frame(reader)) is not None:
                bed.exchanged()
                if frame[0] == wire.GOAWAY and frame[3][4:8] != bytes(4):
                    break
        bed.exchanged()
        return True
    except TimeoutError:
        return False


async def send_all(bed, writer, *frames):
    """Sends frames as far as the server takes them; whether it took all."""
    try:
        for frame in frames:
            writer.write(frame)
            bed.sent(len(frame))
            async with asyncio.timeout(10):
                await writer.drain()
    except (ConnectionError, TimeoutError):
        return False
    return True


@attack(promise="a body that stops ends after limits.body_timeout, and its origin connection is free", where=LIMITS, peers=("nginx", "haproxy"))
def stalled_bodies(bed):
    bed.start(settings={"limits.body_timeout": "3s"})
    connections = bed.scale(11, 2)
    streams = 100

    async def one():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        for number in range(streams):
            stream = 2 * number + 1
            head = wire.request(stream, f"/bytes/10/stalled-{number}", ends=False, method="POST", scheme="https", fields=[("content-length", "100")])
            await send_all(bed, writer, head + wire.frame(wire.DATA, 0, stream, b"x"))
        ends = set()
        try:
            async with asyncio.timeout(15):
                while len(ends) < streams and (frame := await wire.read_frame(reader)) is not None:
                    if frame[0] in (wire.HEADERS, wire.RST_STREAM):
                        ends.add(frame[2])
        except TimeoutError:
            pass
        writer.close()
        return len(ends)

    async def attacker():
        return sum(await asyncio.gather(*(one() for _ in range(connections))))

    ended = bed.run(attacker())
    bed.exchanged(ended)
    bed.note(f"{ended} of {connections * streams} ended; {bed.origin.open_max} origin connections at most")
    bed.end_victim(failures_max=10**9 if not bed.is_ours else 0)
    bed.expect(ended == connections * streams, f"{connections * streams - ended} bodies were waited for on and on")
    bed.expect_memory(connections=connections)


@attack(promise="a body of a byte now and then ends too: limits.body_rate_min", where=LIMITS, peers=("nginx", "haproxy"))
def dripping_bodies(bed):
    bed.start(settings={"limits.body_timeout": "3s"})
    streams = 50

    async def attacker():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        for number in range(streams):
            await send_all(bed, writer, wire.request(2 * number + 1, f"/bytes/10/drip-{number}", ends=False, method="POST", scheme="https"))
        ends = set()

        async def listen():
            while (frame := await wire.read_frame(reader)) is not None:
                if frame[0] in (wire.HEADERS, wire.RST_STREAM):
                    ends.add(frame[2])

        listening = asyncio.create_task(listen())
        for _ in range(24):
            for number in range(streams):
                if 2 * number + 1 not in ends:
                    await send_all(bed, writer, wire.frame(wire.DATA, 0, 2 * number + 1, b"x"))
            await asyncio.sleep(0.5)
            if len(ends) == streams:
                break
        listening.cancel()
        writer.close()
        return len(ends)

    ended = bed.run(attacker())
    bed.exchanged(ended)
    bed.end_victim()
    bed.expect(ended == streams, f"{streams - ended} of {streams} bodies dripped on after 12 s")
    bed.expect_memory(connections=1)


@attack(promise="a byte of a body that waits costs about a byte: 32 KiB of each connection and limits.requests_bytes_max", where=MEMORY, peers=("nginx",))
def one_byte_frames(bed):
    async def answer(request, writer):
        if "busy" not in request.target:
            return await harness.plain_answer(request, writer)
        await asyncio.sleep(120)

    # Nobody takes a body whose request waits for one of the origin's connections, all of which one network may have.
    bed.start(answer=answer, victim=False, settings={"limits.origin_network_percent": "100"})
    busy, connections, frames = 1024, bed.scale(5, 1), bed.scale(3_000_000, 1_000_000)

    async def one():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        listening = asyncio.create_task(until_goodbye(bed, reader, 60))
        for number in range(16):
            await send_all(bed, writer, wire.request(2 * number + 1, f"/waits/{number}", ends=False, method="POST", scheme="https"))
        burst = b"".join(wire.frame(wire.DATA, 0, 2 * number + 1, b"x") for number in range(16) for _ in range(128))
        for _ in range(frames // 2048):
            if listening.done() or not await send_all(bed, writer, burst):
                break
        listening.cancel()
        writer.close()

    async def attacker():
        held = await wire.connect_many(bed.clear_port, busy)
        for index, (_, writer) in enumerate(held):
            writer.write(wire.get(f"/busy/{index}", method="POST"))
        async with asyncio.timeout(30):
            while bed.origin.open < busy:
                await asyncio.sleep(0.05)
        bed.exchanged(busy)
        held_mb = bed.server.resident_mb()
        await asyncio.gather(*(one() for _ in range(connections)))
        bed.expect(bed.server.resident_mb() - held_mb <= 12 * connections, "a byte cost much more than a byte")
        for _, writer in held:
            writer.close()

    bed.run(attacker())
    bed.expect_memory(connections=connections + busy)


@attack(promise="heads that a few bytes stand for are counted as large as they are: limits.requests_bytes_max", where=MEMORY, peers=("nginx", "haproxy"))
def heads_that_wait(bed):
    async def answer(request, writer):
        if "stall" not in request.target:
            return await harness.plain_answer(request, writer)
        await asyncio.sleep(60)

    bed.start(answer=answer)
    connections, streams = bed.scale(100, 20), 120
    field = wire.literal("x", "v" * 3800, indexed=True)
    # The newest entry of the table has number 62.
    again = b"\xbe" * 7

    async def one(index):
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        for number in range(streams):
            stream = 2 * number + 1
            fields = wire.block(f"/stall/{index}-{number}", scheme="https") + (field if number == 0 else b"") + again
            if not await send_all(bed, writer, wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, stream, fields)):
                break
        refused = 0
        try:
            async with asyncio.timeout(10):
                while (frame := await wire.read_frame(reader)) is not None:
                    refused += frame[0] in (wire.RST_STREAM, wire.HEADERS)
        except TimeoutError:
            pass
        writer.close()
        return refused

    async def attacker():
        return sum(await asyncio.gather(*(one(index) for index in range(connections))))

    refused = bed.run(attacker())
    bed.exchanged(connections)
    bed.note(f"{refused} of {connections * streams} requests were refused or answered")
    bed.end_victim(failures_max=10**9)
    bed.expect_memory(connections=connections)


@attack(promise="a head in parts ends after limits.request_timeout, however they come", where=LIMITS, peers=("nginx", "haproxy"))
def slow_continuations(bed):
    bed.start(settings={"limits.request_timeout": "3s"})
    count = bed.scale(500, 50)

    async def one():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        began = asyncio.get_running_loop().time()
        said = asyncio.create_task(until_goodbye(bed, reader, 40))
        await send_all(bed, writer, wire.frame(wire.HEADERS, wire.END_STREAM, 1, b""))
        for _ in range(30):
            done, _ = await asyncio.wait([said], timeout=1)
            if done or not await send_all(bed, writer, wire.frame(wire.CONTINUATION, 0, 1, b"")):
                break
        is_over = said.done() and said.result()
        said.cancel()
        writer.close()
        return asyncio.get_running_loop().time() - began if is_over else None

    async def attacker():
        return await asyncio.gather(*(one() for _ in range(count)))

    lives = [life for life in bed.run(attacker()) if life is not None]
    bed.note(f"{len(lives)} of {count} ended, the last after {max(lives, default=0):.1f} s")
    bed.end_victim()
    bed.expect(len(lives) == count and max(lives, default=0) < 8, "a head in parts lived on")
    bed.expect_memory(connections=count)


def flood(bed, frames, seconds=20):
    """Sends frames until the server has had enough; whether it had."""
    async def attacker():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        said = asyncio.create_task(until_goodbye(bed, reader, seconds))
        for burst in frames:
            if said.done() or not await send_all(bed, writer, burst):
                break
        return await said

    was_sent_away = bed.run(attacker())
    bed.end_victim()
    bed.expect(was_sent_away, "it was never sent away")
    bed.expect_memory(connections=1)


CALM = "crates/wire/src/h2/limits.rs"


@attack(promise="a head of more than 32 frames ends the connection (VU#421644)", where=CALM, peers=("nginx", "haproxy"))
def continuation_flood(bed):
    bed.start()
    parts = [wire.frame(wire.CONTINUATION, 0, 1, wire.literal(f"x-{number}", "y" * 100)) for number in range(bed.scale(100_000, 2_000))]
    flood(bed, [wire.frame(wire.HEADERS, wire.END_STREAM, 1, b""), *parts])


@attack(promise="more than 1,024 PINGs at once end the connection (CVE-2019-9512)", where=CALM, peers=("nginx", "haproxy"))
def ping_flood(bed):
    bed.start()
    flood(bed, [wire.frame(wire.PING, 0, 0, b"12345678") * 100] * bed.scale(10_000, 100))


@attack(promise="more than 1,024 SETTINGS at once end the connection (CVE-2019-9515)", where=CALM, peers=("nginx", "haproxy"))
def settings_flood(bed):
    bed.start()
    flood(bed, [(wire.settings(window=1000) + wire.settings(window=70_000)) * 50] * bed.scale(10_000, 100))


@attack(promise="more than 1,024 PRIORITY frames at once end the connection", where=CALM, peers=("nginx", "haproxy"))
def priority_flood(bed):
    bed.start()
    flood(bed, [b"".join(wire.frame(wire.PRIORITY, 0, 2 * number + 1, b"\0\0\0\0\x10") for number in range(100))] * bed.scale(10_000, 100))


@attack(promise="more than 1,024 PRIORITY_UPDATE frames at once end the connection (RFC 9218 §7.1)", where=CALM, peers=("nginx", "haproxy"))
def priority_update_flood(bed):
    bed.start()
    updates = b"".join(wire.frame(wire.PRIORITY_UPDATE, 0, 0, struct.pack(">I", 2 * number + 1) + b"u=%d" % (number % 8)) for number in range(100))
    flood(bed, [updates] * bed.scale(10_000, 100))


@attack(promise="a client that makes us reset what it asked for is sent away as one that resets it itself (CVE-2025-8671)", where=CALM,
        peers=("nginx", "haproxy"))
def made_resets(bed):
    """Each request is followed by a frame that is wrong for its stream only, so the server has to reset it."""
    bed.start()
    wrongs = (lambda stream: wire.window_update(stream, 0), lambda stream: wire.window_update(stream, 0x7fff_ffff),
              lambda stream: wire.frame(wire.PRIORITY, 0, stream, struct.pack(">IB", stream, 16)))

    def frames():
        for number in range(bed.scale(100_000, 5_000)):
            stream = 2 * number + 1
            yield wire.request(stream, f"/bytes/1000/made-{number}?slow=5", scheme="https") + wrongs[number % 3](stream)

    flood(bed, frames())
    reached = sum("/made" in request.target for request in bed.origin.requests)
    bed.note(f"{reached} requests reached the origin")
    bed.expect(reached <= 1_024, f"{reached} requests reached the origin")


@attack(promise="more than 1,024 empty DATA frames at once end the connection (CVE-2019-9518)", where=CALM, peers=("nginx", "haproxy"))
def empty_data_flood(bed):
    bed.start()
    begin = wire.request(1, "/bytes/10/empty", ends=False, method="POST", scheme="https")
    flood(bed, [begin, *[wire.frame(wire.DATA, 0, 1, b"") * 100] * bed.scale(10_000, 100)])


@attack(promise="cookie crumbs cost no more than limits.head_bytes_max", where=LIMITS, peers=("nginx", "haproxy"))
def cookie_crumbs(bed):
    bed.start()
    connections = bed.scale(50, 5)

    async def one(index):
        reader, writer = await wire.open_h2(bed.tls_port, tls=True)
        bed.sent(0, connections=1)
        # One byte a crumb: 32 is `cookie` in the table of the RFC, indexed once with a value.
        crumb = b"\x60" + wire.integer(2, 7) + b"a="
        block = wire.block(f"/bytes/10/crumbs-{index}", scheme="https") + crumb + b"\xbe" * 15_000
        statuses = 0
        for number in range(50):
            if not await send_all(bed, writer, wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 2 * number + 1, block)):
                break
        try:
            async with asyncio.timeout(5):
                while (frame := await wire.read_frame(reader)) is not None:
                    statuses += frame[0] in (wire.HEADERS, wire.RST_STREAM, wire.GOAWAY)
        except TimeoutError:
            pass
        writer.close()
        return statuses

    async def attacker():
        return sum(await asyncio.gather(*(one(index) for index in range(connections))))

    bed.exchanged(bed.run(attacker()))
    bed.end_victim()
    bed.expect(len([one for one in bed.origin.requests if "crumbs" in one.target]) == 0 or not bed.is_ours, "a head of 15,000 crumbs was taken")
    bed.expect_memory(connections=connections)
