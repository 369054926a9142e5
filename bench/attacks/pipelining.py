"""Thousands of requests in one write, whose answers have to come in order, each to its own request."""
import asyncio, random

import harness, wire
from harness import ATTACKER, attack

WHERE = "RFC 9112 §9.3.2; docs/operations.md, What clients can make a node hold"
HOT = [f"/bytes/1000/piped-{number}" for number in range(50)]


def asked(number, name, dice):
    """A request of one of these kinds: its bytes, and status and body of the answer."""
    own = f"/bytes/{dice.randrange(1, 3000)}/{name}-{number}"
    content = b"x" * dice.randrange(1, 200)
    kinds = {
        "hit": (dice.choice(HOT), {}, b""), "miss": (own, {}, b""), "pass": (own + "?nostore", {}, b""), "head": (own, {"method": "HEAD"}, b""),
        "slow miss": (own + f"?slow={dice.random() * 0.02:.3f}", {}, b""),
        "body": (own, {"method": "POST", "fields": [("Content-Length", len(content))]}, content),
        "chunks": (own, {"method": "PUT", "fields": [("Transfer-Encoding", "chunked")]}, b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)),
        "range": (dice.choice(HOT), {"fields": [("Range", "bytes=10-19")]}, b""),
    }
    kind = dice.choices(list(kinds), (10, 4, 2, 2, 1, 2, 2, 4))[0]
    target, more, content = kinds[kind]
    body = harness.body_of(target, int(target.split("/")[2]))
    expected = {"head": (200, b""), "range": (206, body[10:20])}.get(kind, (200, body))
    return kind, target, wire.get(target, **more) + content, expected


@attack(promise="answers to pipelined requests come in order, whatever each of them takes", where=WHERE, peers=("nginx", "haproxy", "varnish"))
def in_order(bed):
    """Hits, misses, slow ones, passes, bodies, chunks, heads and ranges mixed, all in one write."""
    bed.start(memory_mb=64)
    count, connections, dice = bed.scale(2_000, 300), bed.scale(20, 4), random.Random(11)

    async def one(index):
        requests = [asked(number, f"{index}", dice) for number in range(count)]
        reader, writer = await wire.connect(bed.clear_port)
        data = b"".join(request for _, _, request, _ in requests)
        writer.write(data)
        bed.sent(len(data), connections=1)
        for at, (kind, target, _, expected) in enumerate(requests):
            try:
                async with asyncio.timeout(60):
                    status, _, body = await wire.response(reader, kind == "head")
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
                bed.expect(False, f"{kind} {at} of {count} had no answer: {type(error).__name__}")
                break
            bed.exchanged()
            # nginx and Varnish cut ranges of what they have; a proxy may give the whole.
            if not bed.expect((status, body) == expected, f"{kind} {at}, {target}: {status}, {body[:40]!r}"):
                break
        writer.close()

    async def attacker():
        for target in HOT:
            await wire.fetch(bed.clear_port, target)
        await asyncio.gather(*(one(index) for index in range(connections)))

    bed.run(attacker())
    bed.note(f"{bed.exchanges} of {count * connections} answers in order")
    bed.end_victim()
    bed.expect_memory(connections=connections)


@attack(promise="who pipelines and does not read has no more done for him than his answers' buffers hold, and is ended after limits.send_timeout",
        where=WHERE, peers=("nginx", "haproxy", "varnish"))
def unread(bed):
    seconds = 3
    bed.start(settings={"limits.send_timeout": f"{seconds}s"})
    connections, requests = bed.scale(500, 60), 2_000

    async def attacker():
        for target in HOT:
            await wire.fetch(bed.clear_port, target)
        held = await wire.connect_many(bed.clear_port, connections, ATTACKER, receive_bytes=4096)
        for index, (_, writer) in enumerate(held):
            for number in range(requests):
                target = HOT[number % 50] if number % 2 else f"/bytes/1000/unread-{index}-{number}"
                request = wire.get(target)
                writer.write(request)
                bed.sent(len(request))
        bed.sent(0, connections=connections)
        await asyncio.sleep(seconds * 3 + 2)
        before = len(attackers_own())
        await asyncio.sleep(1)
        left = harness.established(bed.clear_port)
        for _, writer in held:
            writer.transport.abort()
        return before, len(attackers_own()), left

    def attackers_own():
        return [one for one in bed.origin.requests if "unread" in one.target]

    before, reached, left = bed.run(attacker())
    bed.exchanged(reached)
    bed.note(f"{reached} of {connections * requests // 2} misses were done; {left} connections were left")
    bed.end_victim()
    bed.expect(reached == before, "it goes on asking the origin for who does not read")
    bed.expect(reached <= connections * requests // 4, f"{reached} misses were done for who does not read")
    bed.expect(left <= 8, f"{left} connections that take nothing were left on")
    bed.expect_memory(connections=connections)
