"""Attacks over HTTP/1."""
import asyncio, time

import harness, wire
from harness import attack

LIMITS = "docs/configuration.md, [limits]"


@attack(promise="a head that comes a byte at a time ends after limits.request_timeout", where=LIMITS, peers=("nginx", "haproxy"))
def slow_heads(bed):
    seconds = 3
    bed.start(settings={"limits.request_timeout": f"{seconds}s"})
    count = bed.scale(10_000, 500)

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        head = wire.get("/bytes/10/slow", fields=[("X-Long", "x" * 200)])
        # A peer with its usual minute is not waited for.
        return await asyncio.gather(*(wire.drip(bed, one, [bytes([byte]) for byte in head], seconds + 30) for one in held))

    ended = bed.ended(bed.run(attacker()))
    bed.end_victim()
    bed.expect(len(ended) == count, f"{count - len(ended)} of {count} slow heads were not ended")
    bed.expect(max(ended, default=0) < seconds * 2 + 15, "a slow head lived on")
    bed.expect_memory(connections=count)


@attack(promise="a body that comes a byte at a time ends by limits.body_timeout and limits.body_rate_min", where=LIMITS, peers=("nginx", "haproxy"))
def slow_bodies(bed):
    seconds = 3
    bed.start(settings={"limits.body_timeout": f"{seconds}s"})
    # Each holds an origin connection, of which there are 1,024.
    count = bed.scale(2_000, 200)

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        # Those of known length up to 64 KiB are read before the origin is asked, the others go there as they come.
        framings = (("Content-Length", "1000"), ("Content-Length", "1000000"), ("Transfer-Encoding", "chunked"))
        heads = [wire.get(f"/bytes/10/body-{index}", method="POST", fields=[framings[index % 3]]) for index in range(count)]
        bodies = ([head] + [b"1\r\nx\r\n" if b"chunked" in head else b"x"] * 1000 for head in heads)
        return await asyncio.gather(*(wire.drip(bed, one, body, seconds + 40) for one, body in zip(held, bodies)))

    lives = bed.ended(bed.run(attacker()))
    bed.note(f"{bed.origin.open_max} origin connections at most")
    bed.end_victim(failures_max=10**9)
    bed.expect(len(lives) == count, f"{count - len(lives)} of {count} dripping bodies were not ended")
    bed.expect_memory(connections=count)


@attack(promise="a chunked body of chunks of one byte with long extensions ends with a 400 or its time", where=LIMITS, peers=("nginx", "haproxy"))
def chunk_games(bed):
    bed.start(settings={"limits.body_timeout": "3s"})
    count = bed.scale(200, 20)
    games = [
        b"1;" + b"e" * 15_000 + b"\r\nx\r\n",  # long extensions
        b"1\r\nx\r\n",  # chunks of one byte
        b"0" * 1000,  # a size that does not end
        b"0\r\n" + b"X: y\r\n" * 1000,  # endless trailers
        b"0\r\n" + b"x" * 10_000,  # a trailer without an end
    ]

    async def play(index, reader, writer):
        game = games[index % len(games)]
        try:
            writer.write(wire.get(f"/bytes/10/chunk-{index}", method="POST", fields=[("Transfer-Encoding", "chunked")]))
            began = time.monotonic()
            while time.monotonic() - began < 20:
                writer.write(game)
                bed.sent(len(game))
                await writer.drain()
                if await wire.ended(reader, 0.2):
                    return True
        except ConnectionError:
            return True
        finally:
            writer.close()
        return False

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        return await asyncio.gather(*(play(index, *one) for index, one in enumerate(held)))

    ended = bed.run(attacker())
    bed.exchanged(sum(ended))
    bed.note(f"{sum(ended)} of {count} were ended; {bed.origin.open_max} origin connections at most")
    bed.end_victim(failures_max=10**9 if not bed.is_ours else 0)
    bed.expect(sum(ended) == count, f"{count - sum(ended)} games went on for 20 s")
    bed.expect_memory(connections=count)


@attack(promise="heads without an end get a 431 at limits.head_bytes_max", where=LIMITS, peers=("nginx", "haproxy"))
def endless_heads(bed):
    bed.start()
    count = bed.scale(1_000, 50)

    async def one(reader, writer):
        try:
            writer.write(b"GET /bytes/10/endless HTTP/1.1\r\nHost: localhost\r\nX: ")
            for _ in range(100):
                writer.write(b"y" * 4096)
                bed.sent(4096)
                async with asyncio.timeout(10):
                    await writer.drain()
                if await wire.ended(reader, 0.01):
                    return True
        except (ConnectionError, TimeoutError):
            return True
        finally:
            writer.close()
        return False

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        return await asyncio.gather(*(one(*each) for each in held))

    ended = bed.run(attacker())
    bed.exchanged(sum(ended))
    bed.end_victim()
    bed.expect(sum(ended) == count, f"{count - sum(ended)} endless heads were read on")
    bed.expect_memory(connections=count)


@attack(promise="long heads of requests that wait are counted: limits.requests_bytes_max", where="docs/operations.md, What clients can make a node hold", peers=("nginx", "haproxy"))
def long_heads_that_wait(bed):
    async def answer(request, writer):
        if "stall" not in request.target:
            return await harness.plain_answer(request, writer)
        await asyncio.sleep(30)

    bed.start(answer=answer)
    count = bed.scale(3_000, 300)

    async def one(index, reader, writer):
        head = wire.get(f"/stall/{index}/" + "u" * 6_000, fields=[("X-Long", "x" * 24_000), ("User-Agent", "a" * 1_000)])
        writer.write(head)
        bed.sent(len(head))
        is_over = await wire.ended(reader, 10)
        writer.close()
        return is_over

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        return await asyncio.gather(*(one(index, *each) for index, each in enumerate(held)))

    refused = sum(bed.run(attacker()))
    bed.exchanged(count)
    bed.note(f"{refused} of {count} were refused")
    bed.end_victim(failures_max=10**9)
    bed.expect_memory(connections=count)


@attack(promise="long targets, agents and keys stay within --memory: they are counted, or bounded", where="docs/operations.md, What clients can make a node hold", peers=("nginx",))
def long_targets(bed):
    bed.start()
    count = bed.scale(60_000, 3_000)

    async def one(indexes, reader, writer):
        for index in indexes:
            head = wire.get(f"/bytes/100/{index}/" + "u" * 7_900, fields=[("User-Agent", "a" * 10_000), ("Referer", "r" * 10_000)])
            writer.write(head)
            bed.sent(len(head))
            await wire.response(reader)
            bed.exchanged()
        writer.close()

    async def attacker():
        held = await wire.connect_many(bed.clear_port, 16)
        bed.sent(0, connections=16)
        await asyncio.gather(*(one(range(at, count, 16), *each) for at, each in enumerate(held)))

    bed.run(attacker())
    bed.end_victim()
    bed.expect_memory(connections=16)
