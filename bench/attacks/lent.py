"""Clients that stop in the middle of a thousand different bodies and go on after all of them were evicted, purged or
replaced. Bytes that were lent to the kernel must not change, and those that come later must be of the same body."""
import asyncio, json, os, re, signal, ssl

import harness, wire
from harness import attack

WHERE = "ARCHITECTURE.md, Invariants; docs/operations.md, What one client may take"
# Long enough to be lent, from the second time on that somebody asks.
BODY_BYTES, OTHER_BYTES = 600_000, 1_000_000
STREAMS = 10
# Readers that go on at a time, so that what they need again fits their networks' shares of the origin.
AT_A_TIME = 100


class Editions:
    """An origin whose bodies have editions, with a strong ETag and ranges."""

    def __init__(self):
        self.edition = 1

    def body(self, target, edition):
        return harness.body_of(f"{target}#{edition}", BODY_BYTES)

    async def answer(self, request, writer):
        if "/lent" not in request.target:
            return await harness.plain_answer(request, writer)
        tag, body = f'"{self.edition}"', self.body(request.target, self.edition)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", request.field("range") or "")
        head, end = "200 OK\r\n", ""
        if found and request.field("if-range") in (None, tag):
            first, last = int(found.group(1)), min(int(found.group(2) or BODY_BYTES), BODY_BYTES - 1)
            body, head = body[first:last + 1], "206 Partial Content\r\n"
            end = f"Content-Range: bytes {first}-{last}/{BODY_BYTES}\r\n"
        writer.write(f"HTTP/1.1 {head}Content-Length: {len(body)}\r\nETag: {tag}\r\nCache-Control: max-age=3600\r\n{end}\r\n".encode() + body)


class Stalled:
    """Readers of distinct bodies that have their heads and wait, a third of them on each kind of connection."""

    def __init__(self, bed):
        self.bed, self.opened, self.gate, self.refused, self.hung = bed, [], asyncio.Semaphore(AT_A_TIME), 0, 0

    async def begin(self, count):
        per_kind = count // 3
        gate = asyncio.Semaphore(32)

        async def gated(work):
            async with gate:
                return await work
        works = [self.begin_h1(f"/lent/{'tls' if tls else 'clear'}-{index}", tls, index) for index in range(per_kind) for tls in (False, True)]
        works += [self.begin_h2([f"/lent/h2-{index + at}" for at in range(STREAMS)], index) for index in range(0, per_kind, STREAMS)]
        self.opened = await asyncio.gather(*(gated(work) for work in works))
        if self.refused > count / 20:
            raise harness.Broken(f"{self.refused} of {count} requests were refused before their responses began")

    async def begin_h1(self, target, tls, index):
        source = f"127.9.{1 + index % 8}.1"
        if not tls:
            await wire.fetch(self.bed.clear_port, target, source)
        reader, writer = await wire.connect(self.bed.tls_port if tls else self.bed.clear_port, source, tls=tls, receive_bytes=8192)
        request = wire.get(target)
        writer.write(request)
        self.bed.sent(len(request), connections=1)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        if b" 200 " not in head:
            raise harness.Broken(f"{target} was {head[:40]}")
        return lambda: self.go_on_h1(target, reader, writer)

    async def go_on_h1(self, target, reader, writer):
        body = b""
        try:
            async with asyncio.timeout(60):
                while len(body) < BODY_BYTES and (part := await reader.read(1 << 16)):
                    body += part
        except TimeoutError:
            self.hung += 1
        except (OSError, ssl.SSLError):
            pass
        writer.transport.abort()
        return {target: body}

    async def begin_h2(self, targets, index):
        reader, writer = await wire.open_h2(self.bed.tls_port, f"127.9.{1 + index % 8}.1", tls=True, window=1)
        asks = b"".join(wire.request(2 * at + 1, target, scheme="https") for at, target in enumerate(targets))
        writer.write(asks)
        self.bed.sent(len(asks), connections=1)
        bodies, begun = {2 * at + 1: b"" for at in range(len(targets))}, 0
        while begun < len(targets) and (frame := await asyncio.wait_for(wire.read_frame(reader), 60)) is not None:
            begun += frame[0] in (wire.HEADERS, wire.RST_STREAM)
            if frame[0] == wire.RST_STREAM:
                self.refused += 1
                del bodies[frame[2]]
            if frame[0] == wire.DATA:
                bodies[frame[2]] += frame[3]
        return lambda: self.go_on_h2(targets, bodies, reader, writer)

    async def go_on_h2(self, targets, bodies, reader, writer):
        windows = wire.window_update(0, BODY_BYTES * len(bodies)) + b"".join(wire.window_update(stream, BODY_BYTES) for stream in bodies)
        over = {stream for stream, body in bodies.items() if len(body) == BODY_BYTES}
        try:
            writer.write(windows)
            async with asyncio.timeout(60):
                while len(over) < len(bodies) and (frame := await wire.read_frame(reader)) is not None:
                    kind, flags, stream, payload = frame
                    if kind == wire.DATA:
                        bodies[stream] += payload
                    if kind == wire.RST_STREAM or (kind == wire.DATA and flags & wire.END_STREAM):
                        over.add(stream)
        except TimeoutError:
            self.hung += 1
        except (OSError, ssl.SSLError):
            pass
        writer.transport.abort()
        return {target: bodies[2 * at + 1] for at, target in enumerate(targets) if 2 * at + 1 in bodies}

    async def go_on(self):
        """All of them take the rest; the bodies by target, as far as they came."""
        async def gated(work):
            async with self.gate:
                return await work()
        got = {}
        for bodies in await asyncio.gather(*(gated(work) for work in self.opened)):
            got |= bodies
        self.bed.exchanged(len(got))
        self.bed.expect(self.hung == 0, f"{self.hung} connections neither went on nor ended within 60 s")
        return got


async def churn(bed, count):
    """What is new and large pushes out the rest, twice; how many of these responses broke off."""
    gate = asyncio.Semaphore(4)

    async def one(index):
        async with gate:
            target = f"/bytes/{OTHER_BYTES}/other-{index}"
            try:
                _, _, body = await wire.fetch(bed.clear_port, target)
            except asyncio.IncompleteReadError as error:
                body = error.partial
            bed.expect(body == harness.body_of(target, OTHER_BYTES)[:len(body)], f"wrong bytes of {target}")
            return len(body) < OTHER_BYTES
    return sum([sum(await asyncio.gather(*(one(index) for index in range(count)))) for _ in range(2)])


def judge(bed, got, origin):
    """Each body as it was when its response began, or a part of it where its client was over its share."""
    wrong = [target for target, body in got.items() if body != origin.body(target, 1)[:len(body)]]
    whole = sum(len(body) == BODY_BYTES for body in got.values())
    bed.note(f"{whole} of {len(got)} bodies came whole, {len(got) - whole} broke off, {len(wrong)} had a wrong byte")
    bed.expect(not wrong, f"wrong bytes in {len(wrong)}: {wrong[:5]}")
    # What readers_percent keeps for them, less what the largest network loses to others.
    least = min(len(got) // 4, bed.memory_mb * 1_000_000 // 2 // BODY_BYTES * 4 // 5)
    bed.expect(whole >= least, f"only {whole} of {len(got)} bodies came whole, {least} have room")


@attack(promise="bytes lent to the kernel never change: who stalls in one of 1,000 bodies gets the bytes of that body or is cut off, whatever is evicted meanwhile", where=WHERE,
        peers=("nginx",))
def evicted(bed):
    origin = Editions()
    bed.start(memory_mb=128, answer=origin.answer)

    async def attacker():
        stalled = Stalled(bed)
        await stalled.begin(bed.scale(1_000, 240))
        bed.facts["others: broke off"] = await churn(bed, bed.scale(300, 150))
        return await stalled.go_on()

    judge(bed, bed.run(attacker(), seconds=600), origin)
    bed.end_victim()
    bed.expect_memory(connections=bed.attacker_connections)


@attack(promise="a response that has begun ends with the body it began with or breaks off, whatever is purged, reloaded and fetched anew meanwhile", where=WHERE)
def replaced(bed):
    origin = Editions()
    bed.start(memory_mb=128, answer=origin.answer)

    async def purge_all():
        token = (bed.server.runtime / "admin.token").read_text().strip()
        reader, writer = await wire.connect(bed.server.admin_port)
        writer.write(wire.get("/v1/purge/all", method="POST", fields=[("Authorization", f"Bearer {token}"), ("Content-Length", "2")]) + b"{}")
        status, _, body = await wire.response(reader)
        writer.close()
        bed.expect(status == 200 and json.loads(body)["purged"] > 0, f"the purge was {status}, {body[:60]!r}")

    async def attacker():
        stalled = Stalled(bed)
        await stalled.begin(bed.scale(1_000, 240))
        targets = sorted(f"/lent/clear-{index}" for index in range(bed.scale(1_000, 240) // 3))
        for edition in (2, 3):
            origin.edition = edition
            await purge_all()
            os.kill(bed.server.processes[0].pid, signal.SIGHUP)
            for target in targets:
                _, _, body = await wire.fetch(bed.clear_port, target)
                bed.expect(body == origin.body(target, edition), f"{target} was not of edition {edition} after the purge")
            bed.facts[f"others: broke off, edition {edition}"] = await churn(bed, bed.scale(100, 60))
        return await stalled.go_on()

    judge(bed, bed.run(attacker(), seconds=600), origin)
    bed.end_victim()
    bed.expect_memory(connections=bed.attacker_connections)
