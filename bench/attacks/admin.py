"""Attacks on the admin interface: from pages of other sites, by guessing, and by connecting."""
import asyncio, json, statistics, time

import wire
from harness import attack

WHO = "docs/operations.md, Who may do what"
PATHS = ("/metrics", "/healthz", "/readyz", "/openapi.json", "/v1/stats", "/v1/config", "/nothing")


def token(bed):
    # Its last file: the interface answers by then.
    deadline = time.monotonic() + 20
    while not (bed.server.runtime / "freshet.pid").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return (bed.server.runtime / "admin.token").read_text().strip()


async def ask(bed, path, fields=(), method="GET", host="localhost", body=b"", seconds=10):
    """Status and body; 0 where the connection ended without an answer."""
    reader, writer = await wire.connect(bed.server.admin_port)
    fields = [*fields, ("Connection", "close"), *([("Content-Length", len(body))] if body or method == "POST" else [])]
    request = wire.get(path, host=host, fields=fields, method=method) + body
    bed.sent(len(request), connections=1)
    try:
        async with asyncio.timeout(seconds):
            writer.write(request)
            status, _, answer = await wire.response(reader)
            bed.exchanged()
            return status, answer
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0, b""
    finally:
        writer.close()


async def healthy(bed, seconds_max):
    """The longest that a health check took over as many as fit; each has to be answered."""
    longest = 0.0
    for path in ("/healthz", "/readyz") * 5:
        began = time.monotonic()
        status, _ = await ask(bed, path, seconds=seconds_max * 4)
        longest = max(longest, time.monotonic() - began)
        bed.expect(status == 200, f"{path} was {status}")
    bed.expect(longest <= seconds_max, f"a health check took {longest:.1f} s")
    return longest


@attack(promise="a request that names another host is answered with 421, whatever it asks for", where=WHO)
def rebound_name(bed):
    bed.start(victim=False)
    token(bed)
    port = bed.server.admin_port

    async def attacker():
        for path in PATHS:
            for host in (f"evil.example:{port}", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "user@localhost", ""):
                status, answer = await ask(bed, path, host=host)
                bed.expect(status in (400, 421), f"{path} for {host!r} was {status}: {answer[:60]!r}")
            status, _ = await ask(bed, f"http://evil.example{path}", host="localhost")
            bed.expect(status in (400, 421), f"{path} in absolute form was {status}")
        for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}"):
            status, _ = await ask(bed, "/metrics", host=host)
            bed.expect(status == 200, f"/metrics for {host} was {status}")

    bed.run(attacker())


@attack(promise="a change that a page of another site asks for is answered with 403, also with the token", where=WHO)
def forged_change(bed):
    bed.start(victim=False)
    secret = ("Authorization", f"Bearer {token(bed)}")
    marks = ([("Origin", "http://evil.example")], [("Origin", "null")], [("Sec-Fetch-Site", "cross-site")], [("Sec-Fetch-Site", "same-site")])
    changes = ("/v1/purge", "/v1/purge/tag", "/v1/purge/all", "/v1/reload", "/v1/origins/x", "/v1/bans")

    async def attacker():
        await wire.fetch(bed.clear_port, "/bytes/10/kept")
        for path in changes:
            for mark in marks:
                status, _ = await ask(bed, path, [*mark, secret], "POST", body=b"{}")
                bed.expect(status == 403, f"{path} with {mark} was {status}")
            # A form that needs no leave of the browser's; it has no token.
            status, _ = await ask(bed, path, [("Content-Type", "text/plain")], "POST", body=b"{}")
            bed.expect(status == 401, f"{path} as a form was {status}")
        before = len(bed.origin.requests)
        await wire.fetch(bed.clear_port, "/bytes/10/kept")
        bed.expect(len(bed.origin.requests) == before, "something was purged")
        status, answer = await ask(bed, "/v1/purge/all", [secret], "POST", body=b"{}")
        bed.expect(status == 200 and json.loads(answer)["purged"] > 0, f"the owner's purge was {status}")

    bed.run(attacker())


@attack(promise="a wrong token is answered with 401, in a time that says nothing of the right one", where=WHO)
def guessed_token(bed):
    bed.start(victim=False)
    right = token(bed)
    other = "f" if right[0] != "f" else "e"
    guesses = {"nothing right": other * len(right), "all but the last": right[:-1] + ("0" if right[-1] != "0" else "1")}
    rounds = bed.scale(5000, 500)
    times = {name: [] for name in guesses}

    async def attacker():
        reader, writer = await wire.connect(bed.server.admin_port)
        for _ in range(rounds):
            for name, guess in guesses.items():
                request = wire.get("/v1/stats", fields=[("Authorization", f"Bearer {guess}")])
                began = time.perf_counter()
                writer.write(request)
                status, _, _ = await wire.response(reader)
                times[name].append(time.perf_counter() - began)
                bed.sent(len(request))
                bed.exchanged()
                bed.expect(status == 401, f"a guess was {status}")
        writer.close()
        for odd in ("", "Bearer", "Bearer ", f"Basic {right}", f"Bearer {right} ", f"Bearer  {right}x", f"Bearer {right.upper()}x", right):
            status, _ = await ask(bed, "/v1/stats", [("Authorization", odd)])
            bed.expect(status in (400, 401) or odd == f"Bearer {right} ", f"{odd[:20]!r} was {status}")

    bed.run(attacker())
    none, most = (statistics.median(times[name]) * 1e6 for name in guesses)
    bed.note(f"medians of {rounds}: {none:.0f} µs with nothing right, {most:.0f} µs with all but the last right")
    bed.expect(abs(none - most) < 0.25 * max(none, most), "the times tell how much was right")
    lines = bed.server.log().count("wrong admin token")
    bed.expect(1 <= lines <= 20, f"{lines} lines in the log for {2 * rounds} guesses")


@attack(promise="no path leads to a file, and none around the token", where=WHO)
def traversed_paths(bed):
    bed.start(victim=False)
    ups = ("../" * 12, "..%2f" * 12, "%2e%2e/" * 12, "..%5c" * 12, "....//" * 12, "..;/" * 12, "%252e%252e%252f" * 12)
    starts = ("/", "/metrics/", "/v1/", "/v1/origins/", "/openapi.json/", "//")

    async def attacker():
        secret = ("Authorization", f"Bearer {token(bed)}")
        for start in starts:
            for up in ups:
                for goal in ("etc/passwd", "v1/stats", "proc/self/environ"):
                    for fields in ([], [secret]):
                        status, answer = await ask(bed, f"{start}{up}{goal}", fields)
                        bed.expect(status in (400, 401, 404, 405), f"{start}{up}{goal} was {status}")
                        bed.expect(b"root:" not in answer and b"uptime_s" not in answer, f"{start}{up}{goal} gave {answer[:40]!r}")
        for around in ("/V1/stats", "//v1/stats", "/v1//stats", "/v1/./stats", "/./v1/stats", "/metrics/../v1/stats", "/v1/stats/", "/%761/stats", "/v1/stats?", "/v1/stats%00"):
            status, answer = await ask(bed, around)
            bed.expect(status in (400, 401, 404) and b"uptime_s" not in answer, f"{around} was {status}")

    bed.run(attacker())


@attack(promise="a body has 64 KiB at most and ten seconds with its head", where=WHO)
def huge_bodies(bed):
    bed.start()
    # Of each kind; together fewer than the interface has places, or some lose theirs before they are answered.
    count = bed.scale(100, 40)
    head = "POST /v1/purge HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n"

    async def declared():
        reader, writer = await wire.connect(bed.server.admin_port)
        writer.write(head.format("Content-Length: 99999999999").encode())
        async with asyncio.timeout(5):
            line = await reader.readline()
        bed.exchanged()
        writer.close()
        bed.expect(b" 413 " in line, f"a declared length was answered {line!r}")

    async def endless():
        reader, writer = await wire.connect(bed.server.admin_port)
        writer.write(head.format("Transfer-Encoding: chunked").encode())
        chunk, sent = b"8000\r\n" + b" " * 0x8000 + b"\r\n", 0
        try:
            while sent < 1 << 26:
                writer.write(chunk)
                await asyncio.wait_for(writer.drain(), 30)
                sent += len(chunk)
                bed.sent(len(chunk))
        except (ConnectionError, TimeoutError):
            pass
        bed.exchanged()
        writer.close()
        bed.expect(sent < 1 << 26, "64 MB of a body were taken")

    async def attacker():
        await asyncio.gather(*(declared() for _ in range(count)), *(endless() for _ in range(count)))
        await healthy(bed, 2)

    bed.run(attacker())
    bed.end_victim()
    bed.expect_memory(connections=256)


@attack(promise="a health check is answered whatever else is connected to the interface", where=WHO)
def slow_connections(bed):
    bed.start()
    count = bed.scale(4000, 600)
    begun = (b"", b"GET /metr", wire.get("/metrics")[:-2], b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")

    async def attacker():
        held = await wire.connect_many(bed.server.admin_port, count)
        bed.sent(0, connections=count)
        for index, (_, writer) in enumerate(held):
            writer.write(begun[index % len(begun)])
            bed.sent(len(begun[index % len(begun)]))
        # Some also ask again and again, and read nothing of what they get.
        stuck = await wire.connect_many(bed.server.admin_port, 100, receive_bytes=1024)
        for _, writer in stuck:
            writer.write(wire.get("/metrics") * 20)
        longest = await healthy(bed, 2)
        bed.note(f"{count} connections held; the longest health check took {longest * 1e3:.0f} ms")
        gone = 0
        for reader, writer in held:
            gone += await wire.ended(reader, 0.001)
            writer.close()
        bed.exchanged(gone)
        for _, writer in stuck:
            writer.close()

    bed.run(attacker())
    bed.end_victim()
    bed.expect_memory(connections=356)


@attack(promise="many who look at once delay one another, no health check by more than seconds, and no client", where=WHO)
def many_watchers(bed):
    bed.start()
    count, seconds = bed.scale(200, 60), bed.scale(10, 3)

    async def attacker():
        secret = ("Authorization", f"Bearer {token(bed)}")
        end = time.monotonic() + seconds

        async def watch(index):
            path = ("/metrics", "/v1/stats", "/v1/log?count=1000", "/v1/objects")[index % 4]
            reader, writer = await wire.connect(bed.server.admin_port)
            while time.monotonic() < end:
                writer.write(wire.get(path, fields=[secret]))
                status, _, _ = await wire.response(reader)
                bed.exchanged()
                bed.expect(status == 200, f"{path} was {status}")
            writer.close()

        async def check():
            return await healthy(bed, 5)
        watching = asyncio.gather(*(watch(index) for index in range(count)))
        longest = await check()
        await watching
        bed.note(f"{bed.exchanges} answers in {seconds} s; the longest health check took {longest * 1e3:.0f} ms")

    bed.run(attacker())
    bed.end_victim(delay_ms_max=5000)
    bed.expect_memory(connections=256)
