"""Clients that do not take what they asked for."""
import asyncio, time

import wire
from harness import ATTACKER, OTHER_ATTACKER, attack

OBJECT_BYTES = 1_000_000
WHERE = "docs/operations.md, What one client may take; [limits] readers_percent, readers_network_percent"


async def warm(bed, targets, source=ATTACKER):
    """Has the objects cached, a few at a time."""
    gate = asyncio.Semaphore(8)

    async def one(target):
        async with gate:
            status, _, body = await wire.fetch(bed.clear_port, target, source)
            bed.exchanged(status == 200 and len(body) > 0)
    await asyncio.gather(*(one(target) for target in targets))


def hot_set(bed, count):
    """Objects that are read over and over by others, as large as the attacker's."""
    return [f"/bytes/{OBJECT_BYTES}/popular-{number}" for number in range(count)]


async def hot_ratio(bed, targets):
    """The part of these that is still answered without the origin, and the longest time one took."""
    before, longest = len(bed.origin.requests), 0
    for target in targets:
        began = time.monotonic()
        async with asyncio.timeout(60):
            status, _, body = await wire.fetch(bed.clear_port, target)
        longest = max(longest, time.monotonic() - began)
        bed.expect(status == 200 and len(body) == OBJECT_BYTES, f"{target}: status {status}, {len(body)} bytes")
    wanted = set(targets)
    asked = sum(1 for request in bed.origin.requests[before:] if request.target in wanted)
    return 1 - asked / len(targets), longest


async def judge_hot(bed, popular, seconds):
    """Reads the hot set for so long: from the first reading on, while what was asked for still comes, it has to be there."""
    until, lowest, longest = time.monotonic() + seconds, 1.0, 0.0
    while time.monotonic() < until:
        try:
            ratio, slowest = await hot_ratio(bed, popular)
        except TimeoutError:
            bed.expect(False, "a hit took longer than 60 s")
            return
        longest = max(longest, slowest)
        lowest = min(lowest, ratio)
        await asyncio.sleep(0.2)
    bed.facts["hot set kept, lowest"] = f"{lowest:.2f}"
    bed.facts["hot set, slowest s"] = f"{longest:.2f}"
    bed.expect(lowest >= 0.9, f"{lowest:.2f} of the hot set was left")
    bed.expect(longest < 5, f"a hit of 1 MB took {longest:.1f} s")


def end(bed, connections):
    bed.end_victim()
    bed.expect_memory(connections=connections, more_mb=bed.memory_mb // 8)
    if bed.is_ours:
        metrics = bed.server.metrics()
        held = metrics.get("freshet_memory_held_bytes", 0) / bed.memory_mb / 10_000
        bed.facts["held now, % of memory"] = f"{held:.0f}"
        bed.expect(held <= 50, f"responses that wait hold {held:.0f} % of memory")


def shut_windows(bed, memory_mb):
    """Streams with shut windows over distinct objects, three times what memory holds."""
    bed.start(memory_mb=memory_mb)
    count = memory_mb * 2
    targets = [f"/bytes/{OBJECT_BYTES}/shut-{number}" for number in range(count)]
    popular = hot_set(bed, max(4, memory_mb // 8))

    async def attacker():
        for _ in range(3):
            await warm(bed, popular, "127.0.0.1")
        writers, readers = [], []
        for first in range(0, count, 100):
            reader, writer = await wire.open_h2(bed.clear_port, window=1)
            asks = b"".join(wire.request(2 * number + 1, target) for number, target in enumerate(targets[first:first + 100]))
            writer.write(asks)
            bed.sent(len(asks), connections=1)
            writers.append(writer)
            readers.append(asyncio.create_task(count_frames(bed, reader)))
            await asyncio.sleep(0.2)
        await judge_hot(bed, popular, bed.scale(20, 4))
        for reader in readers:
            reader.cancel()
        for writer in writers:
            writer.close()

    bed.run(attacker())
    end(bed, count // 100 + 1)


async def count_frames(bed, reader):
    while await wire.read_frame(reader) is not None:
        bed.exchanged()


@attack(promise="shut windows over many objects keep no more memory than readers_network_percent", where=WHERE, peers=("nginx",))
def shut_windows_64mb(bed):
    shut_windows(bed, 64)


@attack(promise="shut windows over many objects keep no more memory than readers_network_percent", where=WHERE, peers=("nginx",), long_only=True)
def shut_windows_256mb(bed):
    shut_windows(bed, 256)


@attack(promise="shut windows over many objects keep no more memory than readers_network_percent", where=WHERE, long_only=True)
def shut_windows_2gb(bed):
    shut_windows(bed, 2048)


def slow_readers(bed, kind, memory_mb=64):
    """HTTP/1 connections with small buffers, from two networks, that ask for much and read a byte now and then."""
    bed.start(memory_mb=memory_mb)
    count = bed.scale(600, 80)
    bytes_each = 4_000_000
    popular = hot_set(bed, 6)

    async def attacker():
        for _ in range(3):
            await warm(bed, popular, "127.0.0.1")
        opened = []
        for source in (ATTACKER, OTHER_ATTACKER):
            opened += await wire.connect_many(bed.clear_port, count // 2, source, receive_bytes=4096)
        for number, (_, writer) in enumerate(opened):
            target = f"/bytes/{bytes_each}/slow-{kind}-{number % (count // 2)}"
            ask = wire.get(target)
            writer.write(ask)
            bed.sent(len(ask), connections=1)
        drips = asyncio.create_task(drip(opened))
        await judge_hot(bed, popular, bed.scale(30, 6))
        drips.cancel()
        for _, writer in opened:
            writer.close()

    async def drip(opened):
        while True:
            for reader, _ in opened:
                try:
                    async with asyncio.timeout(0.001):
                        bed.exchanged(len(await reader.read(1)))
                except (TimeoutError, OSError):
                    pass
            await asyncio.sleep(1)

    bed.run(attacker())
    end(bed, count)


@attack(promise="slow readers of cached and filling objects keep no more memory than readers_percent", where=WHERE, peers=("nginx",))
def slow_cached(bed):
    slow_readers(bed, "cached")


@attack(promise="slow readers of what is not kept are ended where memory would be short", where=WHERE, peers=("nginx",))
def slow_uncacheable(bed):
    slow_readers(bed, "nostore")


@attack(promise="who takes less than send_rate_min is cut off after send_timeout of waiting",
        where="docs/configuration.md, [limits] send_rate_min", peers=("nginx", "haproxy"))
def dripping_windows(bed):
    window_s = bed.scale(10, 2)
    bed.start(settings={"limits.send_timeout": f"{window_s}s"})
    connections = bed.scale(20, 3)

    async def one():
        reader, writer = await wire.open_h2(bed.tls_port, tls=True, window=1)
        asks = b"".join(wire.request(2 * stream + 1, f"/bytes/{OBJECT_BYTES}/drip-{stream}", scheme="https") for stream in range(50))
        writer.write(asks)
        bed.sent(len(asks), connections=1)
        over = set()

        async def watch():
            while (got := await wire.read_frame(reader)) is not None:
                bed.exchanged()
                if got[0] == wire.RST_STREAM:
                    over.add(got[2])

        watching = asyncio.create_task(watch())
        began = time.monotonic()
        while time.monotonic() - began < 3 * window_s and len(over) < 50 and not watching.done():
            drops = b"".join(wire.window_update(2 * stream + 1, 1) for stream in range(50) if 2 * stream + 1 not in over)
            writer.write(drops)
            bed.sent(len(drops))
            await asyncio.sleep(0.5)
        ended = len(over) if not watching.done() else 50
        watching.cancel()
        writer.close()
        return ended

    async def attacker():
        return sum(await asyncio.gather(*(one() for _ in range(connections))))

    ended = bed.run(attacker())
    bed.note(f"{ended} of {connections * 50} streams were ended within {3 * window_s} s")
    bed.expect(ended == connections * 50, f"{connections * 50 - ended} streams that take 2 bytes a second go on")
    bed.end_victim()
    bed.expect_memory(connections=connections)
