"""What an origin may do to a node: nothing of it may reach another response, stay, or cost without bound."""
import asyncio, time, zlib

import harness, wire
from harness import attack

ERRORS = "docs/configuration.md, [origins]; ARCHITECTURE.md: nothing from the network panics the node"
FRESH = "Cache-Control: max-age=3600\r\n"


def hostile(evil):
    """Answers `/evil/...` by `evil(request, writer)`, and everything else as a good origin does."""
    async def answer(request, writer):
        if "/evil" not in request.target:
            return await harness.plain_answer(request, writer)
        try:
            await evil(request, writer)
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()
    return answer


def end_victim(bed, **more):
    """Ends the well-behaved client once it has seen how the server is behind the attack."""
    time.sleep(0.5)
    bed.end_victim(**more)


async def ask(bed, target, seconds=20):
    """Status, fields and body; `cut` as status where the response broke off, `slow` where it did not end."""
    reader, writer = await wire.connect(bed.clear_port)
    request = wire.get(target)
    bed.sent(len(request), connections=1)
    writer.write(request)
    try:
        async with asyncio.timeout(seconds):
            answer = await wire.response(reader)
        bed.exchanged()
        return answer
    except TimeoutError:
        return "slow", {}, b""
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, IndexError):
        bed.exchanged()
        return "cut", {}, b""
    finally:
        writer.close()


def said(bed, answers):
    for name, (status, fields, body) in answers.items():
        bed.note(f"{name}: {status}, {len(body)} bytes")


HEADS = {
    "a bare CR": "X-A: a\rX-Evil: 1\r\n",
    "a NUL": "X-A: a\0b\r\n",
    "a name with a space": "X Evil: 1\r\n",
    "no colon": "X-Evil\r\n",
    "a line that goes on": "X-A: a\r\n X-Evil: 1\r\n",
    "two lengths": "Content-Length: 7\r\n",
    "a length and chunks": "Transfer-Encoding: chunked\r\n",
    "a length with a sign": "Content-Length: +5\r\n",
    "an unknown coding": "Transfer-Encoding: evil, chunked\r\n",
}


@attack(promise="a head that is not HTTP, or frames its body in two ways, is a 502 or loses what is wrong with it, and is not kept", where=ERRORS,
        peers=("nginx", "varnish"))
def splitting(bed):
    async def evil(request, writer):
        name = list(HEADS)[int(request.target.rsplit("-", 1)[1])]
        length = "" if "length" in name and "two" not in name and "chunks" not in name else "Content-Length: 5\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{length}{FRESH}{HEADS[name]}\r\nhello".encode("latin-1"))

    bed.start(answer=hostile(evil))

    async def attacker():
        return {name: await ask(bed, f"/evil/head-{at}") for at, name in enumerate(HEADS)}

    answers = bed.run(attacker())
    said(bed, answers)
    end_victim(bed)
    for name, (status, fields, body) in answers.items():
        bed.expect(status in (200, 502, 503, "cut"), f"{name}: {status}")
        bed.expect("x-evil" not in fields, f"{name}: a field was made of another's value")
        is_framing = "length" in name or "coding" in name or "chunks" in name
        bed.expect(not is_framing or status != 200, f"{name}: answered with 200 and {body!r}")


@attack(promise="interim responses without end are given up after 100", where="crates/origin/src/exchange.rs, INTERIM_MAX", peers=("nginx", "varnish"))
def interim_flood(bed):
    sent = [0]

    async def evil(request, writer):
        for _ in range(100_000):
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 10)
            sent[0] += 10
            await writer.drain()

    bed.start(answer=hostile(evil))

    async def attacker():
        reader, writer = await wire.connect(bed.clear_port)
        writer.write(wire.get("/evil/interim"))
        bed.sent(0, connections=1)
        final = None
        try:
            async with asyncio.timeout(20):
                while final is None:
                    status, _, _ = await wire.response(reader)
                    final = status if status >= 200 else None
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            final = final or "none"
        bed.exchanged()
        writer.close()
        return final

    final = bed.run(attacker())
    bed.note(f"{sent[0]} interim responses, then {final}")
    end_victim(bed)
    bed.expect(final == 502, f"the final status was {final}")
    bed.expect_memory(connections=2)


@attack(promise="a body of another length than it says reaches nobody as whole, is not kept, and none of it is in another response", where=ERRORS,
        peers=("nginx", "varnish"))
def wrong_lengths(bed):
    cases = {
        "short": (b"Content-Length: 100", b"x" * 50),
        "long": (b"Content-Length: 5", b"hello" + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"),
        "short chunks": (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
        "long chunks": (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"),
        "a 304 nobody asked for": None,
        "a 206 nobody asked for": None,
    }

    async def evil(request, writer):
        name = list(cases)[int(request.target.rsplit("-", 1)[1])]
        if name.startswith("a 304"):
            writer.write(f"HTTP/1.1 304 Not Modified\r\n{FRESH}\r\n".encode())
        elif name.startswith("a 206"):
            writer.write(f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/100\r\nContent-Length: 5\r\n{FRESH}\r\nhello".encode())
        else:
            framing, body = cases[name]
            writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + FRESH.encode() + b"\r\n" + body)

    bed.start(answer=hostile(evil))

    async def attacker():
        answers, kept = {}, {}
        for at, name in enumerate(cases):
            answers[name] = await ask(bed, f"/evil/length-{at}")
            before = len(bed.origin.requests)
            kept[name] = await ask(bed, f"/evil/length-{at}")
            kept[name] = sum("/evil" in one.target for one in bed.origin.requests[before:]) == 0
            for number in range(20):
                status, _, body = await ask(bed, f"/bytes/100/after-{at}-{number}")
                bed.expect(status == 200 and b"EVIL" not in body, f"{name}: another response was {status}, {body[:20]!r}")
        return answers, kept

    answers, kept = bed.run(attacker())
    said(bed, answers)
    end_victim(bed)
    for name in ("short", "short chunks"):
        bed.expect(answers[name][0] in ("cut", 502), f"{name}: {answers[name][0]}")
        bed.expect(not kept[name], f"{name}: kept")
    bed.expect(all(b"EVIL" not in body for _, _, body in answers.values()), "bytes behind a response were taken for a part of it")
    bed.expect(answers["a 304 nobody asked for"][0] != 200 or not kept["a 304 nobody asked for"], "a 304 was kept as content")


@attack(promise="bytes that are no response are a 502, at once", where=ERRORS, peers=("nginx", "varnish"))
def garbage(bed):
    cases = [b"\0" * 1000, bytes(range(256)) * 40, b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 99 Low\r\n\r\n", b"HTTP/1.1 2000 High\r\n\r\n", b"SSH-2.0-x\r\n", b"\r\n" * 5000,
             b"HTTP/2 200\r\n\r\n", b"ICY 200 OK\r\n\r\n", b""]

    async def evil(request, writer):
        writer.write(cases[int(request.target.rsplit("-", 1)[1])])

    bed.start(answer=hostile(evil))

    async def attacker():
        return [await ask(bed, f"/evil/garbage-{at}") for at in range(len(cases))]

    answers = bed.run(attacker())
    bed.note(f"answered with {[answer[0] for answer in answers]}")
    end_victim(bed)
    for case, answer in zip(cases, answers):
        bed.expect(answer[0] in (502, 503), f"{case[:20]!r} became {answer[0]}")


@attack(promise="a head without end is given up at its limit, and a head that drips after origins.first_byte_timeout", where="docs/configuration.md, [origins]",
        peers=("nginx", "varnish"))
def endless_heads(bed):
    sent = [0]

    async def evil(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while "drip" in request.target:
            writer.write(b"X-A: a\r\n")
            await writer.drain()
            await asyncio.sleep(0.2)
        while sent[0] < 200 << 20:
            line = b"X" * 60_000 if "line" in request.target else b"X-A: " + b"a" * 1000 + b"\r\n"
            writer.write(line)
            sent[0] += len(line)
            await writer.drain()

    bed.start(answer=hostile(evil), settings={"origins.first_byte_timeout": "2s"})

    async def attacker():
        return await asyncio.gather(*(ask(bed, f"/evil/{kind}-{number}") for kind in ("many", "line", "drip") for number in range(20)))

    answers = bed.run(attacker())
    bed.note(f"{sent[0] >> 20} MB of heads sent")
    end_victim(bed)
    bed.expect(all(answer[0] in (502, 504) for answer in answers), f"answered with {sorted({str(answer[0]) for answer in answers})}")
    bed.expect_memory(connections=120)


@attack(promise="trailers without end break the response off", where="crates/wire/src/h1, limits of trailers", peers=("nginx", "varnish"))
def endless_trailers(bed):
    sent = [0]

    async def evil(request, writer):
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{FRESH}\r\n5\r\nhello\r\n0\r\n".encode())
        while sent[0] < 200 << 20:
            line = b"X-A: " + b"a" * 1000 + b"\r\n"
            writer.write(line * 20)
            sent[0] += 20 * len(line)
            await writer.drain()

    bed.start(answer=hostile(evil))
    answers = bed.run(_many(bed, [f"/evil/trailers-{number}" for number in range(20)]))
    bed.note(f"{sent[0] >> 20} MB of trailers sent")
    end_victim(bed)
    bed.expect(all(answer[0] in ("cut", 502) for answer in answers), f"answered with {sorted({str(answer[0]) for answer in answers})}")
    bed.expect_memory(connections=40)


async def _many(bed, targets):
    return await asyncio.gather(*(ask(bed, target) for target in targets))


CHUNKS = {
    "a size beyond 64 bits": b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "the largest size": b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "no end of a chunk": b"5\r\nhello0\r\n\r\n",
    "a longer chunk than it says": b"5\r\nhello!!\r\n0\r\n\r\n",
    "bare line feeds": b"5\nhello\n0\n\n",
    "a size line without end": b"5;" + b"x" * (4 << 20),
    "zeros without end": b"0" * (4 << 20),
}


@attack(promise="chunks that are none break the response off, and nothing of it is kept", where=ERRORS, peers=("nginx", "varnish"))
def chunk_games(bed):
    async def evil(request, writer):
        chunks = list(CHUNKS.values())[int(request.target.rsplit("-", 1)[1])]
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{FRESH}\r\n".encode() + chunks)

    bed.start(answer=hostile(evil))
    targets = [f"/evil/chunks-{at}" for at in range(len(CHUNKS))]
    answers = dict(zip(CHUNKS, bed.run(_many(bed, targets))))
    said(bed, answers)
    before = len(bed.origin.requests)
    bed.run(_many(bed, targets))
    again = {one.target for one in bed.origin.requests[before:] if "/evil" in one.target}
    end_victim(bed)
    for name, (status, _, _) in answers.items():
        bed.expect(status in ("cut", 502), f"{name}: {status}")
    bed.expect(again == set(targets), f"kept: {sorted(set(targets) - again)}")
    bed.expect_memory(connections=40)


@attack(promise="a body that grows a thousand times when it is unpacked is unpacked as its reader takes it", where="docs/configuration.md, [cache] gzip", peers=("varnish",))
def gzip_bomb(bed):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    length = bed.scale(2048, 256)
    bomb = b"".join(packer.compress(zeros) for _ in range(length)) + packer.flush()

    async def evil(request, writer):
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n{FRESH}\r\n".encode() + bomb)

    bed.start(answer=hostile(evil), settings={"cache.gzip": "true"})

    async def reader():
        reader, writer = await wire.connect(bed.clear_port)
        writer.write(wire.get("/evil/bomb", fields=[("Connection", "close")]))
        bed.sent(100, connections=1)
        count, began = 0, time.monotonic()
        while time.monotonic() - began < bed.scale(20, 4):
            piece = await reader.read(1 << 18)
            if not piece:
                break
            count += len(piece)
        writer.close()
        return count

    async def attacker():
        return await asyncio.gather(*(reader() for _ in range(8)))

    counts = bed.run(attacker())
    bed.exchanged(sum(count > 0 for count in counts))
    bed.note(f"{len(bomb) >> 10} KB stand for {length} MB; {sum(counts) >> 20} MB were read")
    end_victim(bed)
    bed.expect_memory(connections=8)


@attack(promise="a page that grows a thousand times when it is unpacked for its includes is put together as its reader takes it",
        where="docs/configuration.md, [cache] esi", peers=("varnish",))
def packed_esi_bomb(bed):
    """Blank text by hundreds of MB, includes of such pages in between, and a tag that never ends, each packed to KBs."""
    length = bed.scale(1024, 128)

    def packed(*parts):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(packer.compress(part) for part in (b"<p>", *parts)) + packer.flush()

    blank, include = b" " * (1 << 20), b'<esi:include src="/evil/blank"/>'
    pages = {"blank": packed(*[blank] * length), "page": packed(*[blank, include] * (length // 16)), "tag": packed(b'<esi:include src="', *[b"a" * (1 << 20)] * length)}

    async def evil(request, writer):
        page = pages[request.target.rsplit("/", 1)[1]]
        writer.write(f'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSurrogate-Control: content="ESI/1.0"\r\nContent-Encoding: gzip\r\n'
                     f"Content-Length: {len(page)}\r\n{FRESH}\r\n".encode() + page)

    bed.start(answer=hostile(evil), settings={"cache.esi": "true", "cache.gzip": "true"})

    async def reader(number):
        reader, writer = await wire.connect(bed.clear_port)
        writer.write(wire.get(f"/evil/{('page', 'blank', 'tag')[number % 3]}", fields=[("Connection", "close")]))
        bed.sent(100, connections=1)
        count, began = 0, time.monotonic()
        while time.monotonic() - began < bed.scale(20, 4):
            try:
                async with asyncio.timeout(1):
                    piece = await reader.read(1 << 18)
            except TimeoutError:
                continue
            if not piece:
                break
            count += len(piece)
        writer.transport.abort()
        return count

    async def attacker():
        return await asyncio.gather(*(reader(number) for number in range(9)))

    counts = bed.run(attacker())
    bed.exchanged(sum(count > 0 for count in counts))
    bed.note(f"{sum(map(len, pages.values())) >> 10} KB stand for {3 * length} MB and more; {sum(counts) >> 20} MB were read")
    end_victim(bed)
    bed.expect_memory(connections=9)


@attack(promise="a page asks for esi.includes_max includes at most, and others have their turn meanwhile", where="docs/configuration.md, [esi]", peers=("varnish",))
def esi_bomb(bed):
    page = b"<p>" + b'<esi:include src="/evil/page"/>' * 30 + b"</p>"

    async def evil(request, writer):
        writer.write(f'HTTP/1.1 200 OK\r\nSurrogate-Control: content="ESI/1.0"\r\nContent-Length: {len(page)}\r\n{FRESH}\r\n'.encode() + page)

    bed.start(answer=hostile(evil), settings={"cache.esi": "true"})
    answers = bed.run(_many(bed, ["/evil/page"] * 10))
    bed.note(f"{[answer[0] for answer in answers]}")
    end_victim(bed, delay_ms_max=1000)
    bed.expect(all(answer[0] == 200 for answer in answers), "a page was not answered")
    if bed.is_ours:
        metrics = bed.server.metrics()
        asked = max((value for name, value in metrics.items() if "esi_requests" in name), default=0)
        bed.note(f"{asked:.0f} includes")
        bed.expect(0 < asked <= 10_000, f"{asked:.0f} includes for ten pages")
    bed.expect_memory(connections=20)
