"""Clients that do not take what they asked for."""
import asyncio, time

import harness, wire
from harness import ATTACKER, attack

OBJECT_BYTES = 1_000_000
# Connections of the well-behaved, and those of a moment.
OTHERS_MAX = 8
# Of many responses to one client that are not kept some wait for a place first, one after the other
# (crates/session/src/streams/serve/place.rs).
PLACE_S = 15
# readers_percent, and half as much more for what cannot be read again.
HELD_MAX = 0.75
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
    until, lowest, longest, held = time.monotonic() + seconds, 1.0, 0.0, 0.0
    while time.monotonic() < until:
        try:
            ratio, slowest = await hot_ratio(bed, popular)
        except TimeoutError:
            bed.expect(False, "a hit took longer than 60 s")
            return
        longest = max(longest, slowest)
        lowest = min(lowest, ratio)
        if bed.is_ours:
            metrics = await asyncio.to_thread(bed.server.metrics)
            held = max(held, metrics["freshet_memory_held_bytes"] / metrics["freshet_memory_limit_bytes"])
        await asyncio.sleep(0.2)
    bed.facts["hot set kept, lowest"] = f"{lowest:.2f}"
    bed.facts["hot set, slowest s"] = f"{longest:.2f}"
    bed.facts["held for readers at most, %"] = f"{held * 100:.0f}"
    bed.expect(held <= HELD_MAX, f"responses that wait held {held:.2f} of memory")
    bed.expect(lowest >= 0.9, f"{lowest:.2f} of the hot set was left")
    bed.expect(longest < 5, f"a hit of 1 MB took {longest:.1f} s")


def end(bed, connections):
    bed.end_victim()
    bed.expect_memory(connections=connections, more_mb=bed.memory_mb // 8)


def shut_windows(bed, memory_mb, stored=False):
    """Streams with shut windows over distinct objects, three times what memory holds; of such that are on a disk, if they are
    `stored`."""
    store = f"{bed.base}/store"
    bed.start(memory_mb=memory_mb, more=["--store", f"{store}:1GB"] if stored else [])
    count = memory_mb * 2
    targets = [f"/bytes/{OBJECT_BYTES}/shut-{number}" for number in range(count)]
    popular = hot_set(bed, max(4, memory_mb // 8))

    async def attacker():
        for _ in range(3):
            await warm(bed, popular, "127.0.0.1")
        if stored:
            await warm(bed, targets)
            before = await asyncio.to_thread(bed.server.metrics)
            live = before[f'freshet_store_live_bytes{{store="{store}"}}']
            bed.expect(live > count * OBJECT_BYTES / 2, f"{live / 1e6:.0f} MB are stored")
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


@attack(promise="shut windows over many objects that are on a disk keep no more memory than readers_network_percent, and slow nobody down",
        where=WHERE)
def shut_windows_stored(bed):
    shut_windows(bed, 64, stored=True)


async def dripping_answer(request, writer):
    """Bodies of `/fill/...` that are never whole: 16 KB each 0.8 s."""
    if "/fill" not in request.target:
        return await harness.plain_answer(request, writer)
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {OBJECT_BYTES}\r\nCache-Control: max-age=3600\r\n\r\n".encode())
    body = harness.body_of(request.target, OBJECT_BYTES)
    for at in range(0, OBJECT_BYTES, 16_000):
        writer.write(body[at:at + 16_000])
        await writer.drain()
        await asyncio.sleep(0.8)


def slow_readers(bed, kind, memory_mb=64):
    """Thousands of clients on HTTP/1 that take a byte a second: of one of a hundred objects that are cached, from two
    networks, or from one, which may have half of the origin, of such that are just filled, or of an answer of its own."""
    send_s = bed.scale(10, 3)
    bed.start(memory_mb=memory_mb, answer=dripping_answer, settings={"limits.send_timeout": f"{send_s}s"})
    count, objects = bed.scale(10_000, 600), 100
    targets = {"cached": "/bytes/300000/slow-{}", "filling": "/fill/slow-{}", "uncacheable": "/bytes/1000000/nostore-{}"}
    popular = hot_set(bed, 6)

    async def prepared():
        for _ in range(3):
            await warm(bed, popular, "127.0.0.1")
        if kind == "cached":
            await warm(bed, [targets[kind].format(number) for number in range(objects)])

    async def attacked():
        await judge_hot(bed, popular, send_s)
        deadline = time.monotonic() + 2 * send_s + 5
        while time.monotonic() < deadline and len_open() > OTHERS_MAX:
            await asyncio.sleep(0.5)

    def len_open():
        return harness.established(bed.clear_port)

    bed.run(prepared())
    is_own = kind == "uncacheable"
    crowd = bed.crowd(count, targets[kind], modulo=count if is_own else objects, sources=2 if kind == "cached" else 1)
    bed.facts["connections, most"] = len_open()
    bed.run(attacked())
    left = len_open()
    seen = bed.end_crowd(crowd)
    bed.note(f"answers {seen['answers']}; {left} connections left after {3 * send_s + 5} s at most, {seen['bytes']} bytes taken")
    bed.expect(left <= OTHERS_MAX, f"{left} clients that take a byte a second were left on")
    if kind == "cached":
        bed.expect(seen["answers"].get("200", 0) == count, f"{count} asked, answers were {seen['answers']}, {seen['refused']} refused")
    else:
        bed.expect(set(seen["answers"]) <= {"200", "503", "none"}, f"answers were {seen['answers']}")
    end(bed, count)


@attack(promise="10,000 readers of cached objects at a byte a second keep no more memory than readers_percent, and are ended by send_rate_min",
        where=WHERE, peers=("nginx", "varnish"))
def slow_cached(bed):
    slow_readers(bed, "cached")


@attack(promise="the same of objects that are just filled", where=WHERE, peers=("nginx", "varnish"))
def slow_filling(bed):
    slow_readers(bed, "filling")


@attack(promise="the same of what is not kept: it is ended where memory would be short, and leaves connections to the origin to others",
        where=WHERE, peers=("nginx", "haproxy"))
def slow_uncacheable(bed):
    slow_readers(bed, "uncacheable")


@attack(promise="readers of many networks, each within its share, cost others no response", where=WHERE, peers=("nginx",))
def many_networks(bed):
    """A crowd of eight networks stands in distinct objects without an ETag; others read whole ones meanwhile, as fast as
    they come, which are without an ETag too."""
    bed.start(memory_mb=64)
    count = 400

    async def others():
        cut = slow = 0
        for number in range(300):
            target, began = f"/bytes/{OBJECT_BYTES}/whole-{number}", time.monotonic()
            try:
                async with asyncio.timeout(20):
                    status, _, body = await wire.fetch(bed.clear_port, target)
                bed.expect((status, body) == (200, harness.body_of(target, OBJECT_BYTES)), f"{target} was {status}, {len(body)} bytes")
            except asyncio.IncompleteReadError:
                cut += 1
            except TimeoutError:
                slow += 1
                break
            bed.exchanged()
            if time.monotonic() - began > 5:
                slow += 1
        return cut, slow

    crowd = bed.crowd(count, f"/bytes/{OBJECT_BYTES}/stand-{{}}", sources=8)
    cut, slow = bed.run(others())
    bed.end_crowd(crowd)
    bed.note(f"of 300 responses to others {cut} broke off and {slow} took longer than 5 s")
    bed.expect(cut == 0 and slow == 0, f"{cut} responses to others broke off, {slow} took longer than 5 s")
    end(bed, count)


@attack(promise="who takes less than send_rate_min is cut off after send_timeout of waiting",
        where="docs/configuration.md, [limits] send_rate_min", peers=("nginx", "haproxy"))
def dripping_windows(bed):
    window_s = bed.scale(10, 2)
    limit_s = 3 * window_s + PLACE_S
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
        while time.monotonic() - began < limit_s and len(over) < 50 and not watching.done():
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
    bed.note(f"{ended} of {connections * 50} streams were ended within {limit_s} s")
    bed.expect(ended == connections * 50, f"{connections * 50 - ended} streams that take 2 bytes a second go on")
    bed.end_victim()
    bed.expect_memory(connections=connections)
