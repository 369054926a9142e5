"""Clients that take a node's connections to its origin."""
import asyncio, time, urllib.request

import wire
from harness import ATTACKER, attack

WHERE = "docs/operations.md, What one client may take; [limits] origin_network_percent"
CONNECTIONS = 1024


def ready(bed):
    """Status and words of /readyz."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{bed.server.admin_port}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


def count_of(bed):
    return bed.scale(1100, 1100)


async def hold(bed, seconds):
    """Lets the attack stand while others go on."""
    until, most = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        most = max(most, bed.origin.established())
        await asyncio.sleep(0.1)
    bed.facts["origin connections, most"] = most
    if bed.is_ours:
        status, words = ready(bed)
        bed.facts["readyz"] = status
        bed.expect(status == 200, f"not ready: {words}")
        bed.expect(most < CONNECTIONS, f"{most} connections to the origin are in use")


def end(bed, connections):
    bed.end_victim()
    bed.expect_memory(connections=connections)


async def drain(bed, reader):
    """Counts what the server says on a connection."""
    try:
        while got := await reader.read(1 << 16):
            bed.exchanged(len(got) > 0)
    except OSError:
        pass


def bodies(bed, length):
    bed.start()
    count = count_of(bed)

    async def attacker():
        opened = await wire.connect_many(bed.clear_port, count, ATTACKER)
        for number, (_, writer) in enumerate(opened):
            head = wire.get(f"/post-{number}", fields=[("Content-Length", length)], method="POST") + b"x"
            writer.write(head)
            bed.sent(len(head), connections=1)
        tasks = [asyncio.create_task(drain(bed, reader)) for reader, _ in opened]
        await hold(bed, bed.scale(20, 5))
        bed.exchanged(count)  # They were taken: nobody was refused a connection.
        for task in tasks:
            task.cancel()
        for _, writer in opened:
            writer.close()

    bed.run(attacker())
    bed.note(f"{len([one for one in bed.origin.requests if one.method == 'POST'])} POSTs reached the origin")
    end(bed, count)
    return sum(1 for one in bed.origin.requests if one.method == "POST")


@attack(promise="a small request body is there before a connection to the origin is taken", where=WHERE, peers=("nginx", "haproxy"))
def small_bodies(bed):
    reached = bodies(bed, 1000)
    bed.expect(reached == 0, f"{reached} requests whose bodies did not come reached the origin")


@attack(promise="requests of one network's clients use at most origin_network_percent of an origin's connections", where=WHERE,
        peers=("nginx", "haproxy"))
def large_bodies(bed):
    bodies(bed, 1_000_000)


@attack(promise="the same for bodies over HTTP/2", where=WHERE, peers=("nginx", "haproxy"))
def bodies_h2(bed):
    bed.start()
    connections = bed.scale(11, 11)

    async def attacker():
        writers, tasks = [], []
        for connection in range(connections):
            reader, writer = await wire.open_h2(bed.tls_port, tls=True)
            asks = b"".join(
                wire.request(2 * stream + 1, f"/post-{connection}-{stream}", ends=False, method="POST", scheme="https")
                + wire.frame(wire.DATA, 0, 2 * stream + 1, b"x") for stream in range(100))
            writer.write(asks)
            bed.sent(len(asks), connections=1)
            writers.append(writer)
            tasks.append(asyncio.create_task(drain(bed, reader)))
        await hold(bed, bed.scale(20, 5))
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.close()

    bed.run(attacker())
    end(bed, connections)


def leavers(bed, method, fields=()):
    bed.start()
    count = count_of(bed)

    async def attacker():
        until, gone = time.monotonic() + bed.scale(15, 5), 0
        while time.monotonic() < until:
            for _, writer in await wire.connect_many(bed.clear_port, count // 10, ATTACKER):
                ask = wire.get(f"/slow-{gone}?slow=30", method=method, fields=fields)
                writer.write(ask)
                bed.sent(len(ask), connections=1)
                writer.close()
                gone += 1
                bed.exchanged()
            await asyncio.sleep(0.2)
        bed.note(f"{gone} clients left; {len(bed.origin.requests)} requests reached the origin")
        await hold(bed, 1)
        return gone

    bed.run(attacker())
    end(bed, 0)


@attack(promise="a fetch whose client has left ends after origins.abandoned_timeout, within its network's share", where=WHERE,
        peers=("nginx", "haproxy"))
def leaving_misses(bed):
    leavers(bed, "GET")


@attack(promise="a pass whose client has left gives its connection back", where=WHERE, peers=("nginx", "haproxy"))
def leaving_passes(bed):
    leavers(bed, "DELETE")


@attack(promise="a node whose origins have no connection left says that it is not ready", where="docs/operations.md, Health")
def readiness(bed):
    """With an origin of few connections, which are not shared out."""
    bed.start(more=["--set", "limits.origin_network_percent=100", "--set", "origins.first_byte_timeout=20s"])
    count = CONNECTIONS + 40

    async def attacker():
        opened = await wire.connect_many(bed.clear_port, count, ATTACKER)
        for number, (_, writer) in enumerate(opened):
            ask = wire.get(f"/slow-{number}?slow=15")
            writer.write(ask)
            bed.sent(len(ask), connections=1)
        tasks = [asyncio.create_task(drain(bed, reader)) for reader, _ in opened]
        said = 200
        for _ in range(60):
            said, words = await asyncio.to_thread(ready, bed)
            if said != 200:
                break
            await asyncio.sleep(0.1)
        bed.exchanged()
        bed.note(words)
        bed.expect(said == 503 and "connections to" in words, f"it says {said}: {words}")
        for task in tasks:
            task.cancel()
        for _, writer in opened:
            writer.close()
        again = 503
        for _ in range(250):
            again, words = await asyncio.to_thread(ready, bed)
            if again == 200:
                break
            await asyncio.sleep(0.1)
        bed.expect(again == 200, f"it does not become ready again: {words}")

    bed.run(attacker())
    bed.end_victim(failures_max=10_000, delay_ms_max=30_000)
    bed.expect_memory(connections=count)
