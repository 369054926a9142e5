"""Attacks over HTTP/1."""
import asyncio, time

import wire
from harness import attack

LIMITS = "docs/configuration.md, [limits]"


@attack(promise="a head that comes a byte at a time ends after limits.request_timeout", where=LIMITS, peers=("nginx", "haproxy"))
def slow_heads(bed):
    seconds = 3
    bed.start(settings={"limits.request_timeout": f"{seconds}s"})
    count = bed.scale(10_000, 500)

    async def drip(reader, writer):
        began = time.monotonic()
        try:
            for byte in wire.get("/bytes/10/slow", fields=[("X-Long", "x" * 200)]):
                writer.write(bytes([byte]))
                bed.sent(1)
                if await wire.ended(reader, 1.0):
                    return time.monotonic() - began
        except ConnectionError:
            return time.monotonic() - began
        finally:
            writer.close()
        return None

    async def attacker():
        held = await wire.connect_many(bed.clear_port, count)
        bed.sent(0, connections=count)
        # A peer with its usual minute is not waited for.
        try:
            async with asyncio.timeout(seconds + 30):
                return await asyncio.gather(*(drip(*one) for one in held))
        except TimeoutError:
            return [None] * count

    lives = bed.run(attacker())
    ended = [life for life in lives if life is not None]
    bed.exchanged(len(ended))
    bed.note(f"{len(ended)} of {count} ended, the last after {max(ended, default=0):.1f} s")
    bed.end_victim()
    bed.expect(len(ended) == count, f"{count - len(ended)} of {count} slow heads were not ended")
    bed.expect(max(ended, default=0) < seconds * 2 + 15, "a slow head lived on")
    bed.expect_memory(connections=count)
