"""Clients over HTTP/3 that do not take what they asked for: windows that stay shut, or open by a byte now and then."""
import asyncio, contextlib, functools, time

import harness, quic, readers
from harness import HTTP3_PEERS
from http3 import heads
from quic import connected, frame, stream
from readers import OBJECT_BYTES

attack = functools.partial(harness.attack, peers=HTTP3_PEERS)

STREAMS = 50
# Of each stream until more is allowed: enough for the first answer, which shows that the server is there.
WINDOW_BYTES = 2_000


@contextlib.asynccontextmanager
async def with_shut_windows(bed):
    """A client that lets nothing more come on a stream than its first bytes, unless it says so itself."""
    async with connected(bed, max_stream_data=WINDOW_BYTES) as one:
        one.quic._write_stream_limits = lambda **_: None
        yield one


def asks(one, targets):
    """Asks for these, each on a stream of its own; the numbers of the streams."""
    numbers = []
    for target in targets:
        numbers.append(one.opens())
        one.send(stream(numbers[-1], heads(target), ends=True))
    return numbers


def allow(one, numbers, end):
    """Lets streams come up to there."""
    for number in numbers:
        # aioquic takes no more than it knows to be allowed.
        one.quic._streams[number].max_stream_data_local = end
    one.send(b"".join(frame(quic.MAX_STREAM_DATA, number, end) for number in numbers))


@attack(promise="shut windows over HTTP/3 over many objects keep no more memory than readers_network_percent", where=readers.WHERE)
def shut_windows(bed):
    quic.need()
    bed.start(memory_mb=64)
    count = bed.scale(128, 100)
    popular = readers.hot_set(bed, 8)

    async def attacker():
        for _ in range(3):
            await readers.warm(bed, popular, "127.0.0.1")
        async with contextlib.AsyncExitStack() as open_ones:
            for first in range(0, count, STREAMS):
                one = await open_ones.enter_async_context(with_shut_windows(bed))
                targets = [f"/bytes/{OBJECT_BYTES}/shut-{number}" for number in range(first, first + STREAMS)]
                bed.exchanged(len(asks(one, targets)))
                await asyncio.sleep(0.2)
            await readers.judge_hot(bed, popular, bed.scale(20, 4))

    bed.run(attacker())
    readers.end(bed, count // STREAMS + 1)


@attack(promise="who takes less than send_rate_min over HTTP/3 is cut off after send_timeout of waiting",
        where="docs/configuration.md, [limits] send_rate_min")
def dripping_windows(bed):
    quic.need()
    window_s = bed.scale(10, 2)
    limit_s = 3 * window_s + readers.PLACE_S
    bed.start(settings={"limits.send_timeout": f"{window_s}s"})
    connections = bed.scale(20, 3)

    async def one():
        async with with_shut_windows(bed) as one:
            left = asks(one, [f"/bytes/{OBJECT_BYTES}/drip-{number}" for number in range(STREAMS)])
            began, end = time.monotonic(), WINDOW_BYTES
            while left and time.monotonic() - began < limit_s and not one.is_over:
                end += 1
                allow(one, left, end)
                await asyncio.sleep(0.5)
                left = [number for number in left if number not in one.client.resets]
            return STREAMS if one.is_over else STREAMS - len(left)

    async def attacker():
        return sum(await asyncio.gather(*(one() for _ in range(connections))))

    ended = bed.run(attacker())
    bed.exchanged(ended)
    bed.note(f"{ended} of {connections * STREAMS} streams were ended within {limit_s} s")
    if bed.is_ours:
        bed.facts["told to be slow"] = round(bed.server.metrics()["freshet_readers_slow_total"])
    bed.expect(ended == connections * STREAMS, f"{connections * STREAMS - ended} streams that take 2 bytes a second go on")
    # A thousand objects that the origin makes for it.
    bed.end_victim(miss_ms_max=20_000)
    bed.expect_memory(connections=connections)
