"""What clients make others get: what one of them says must not change what all the others are given."""
import asyncio, pathlib, random, re, time

import harness
import wire
from harness import attack

SHARING = "docs/sharing.md"
LIFETIME = "Cache-Control: public, max-age=3600"
# The smallest limits that widespread servers have for a line or a head.
LINE_BYTES_MAX, HEAD_BYTES_MAX = 8190, 8192


# --- an origin that reacts to what real servers and frameworks react to ----------------------------


def reply(writer, status, body, *fields):
    body = body.encode("latin-1")
    lines = [f"HTTP/1.1 {status} Reply", f"Content-Length: {len(body)}", LIFETIME, *fields]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    return body


def judged(request):
    """Status, body and further fields: everything about the request may change them, and nothing is in Vary."""
    field = request.field
    path, _, query = request.target.partition("?")
    if len(request.head) > HEAD_BYTES_MAX:
        return 431, "head too large", ()
    if any(len(value) > LINE_BYTES_MAX // 2 for _, value in request.fields):
        return 400, "line too long", ()
    if re.search(rb"[\x00-\x08\x09\x0b\x0c\x0e-\x1f\x7f-\xff]", request.head):
        return 400, "odd character", ()
    if request.method not in ("GET", "HEAD"):
        return 405, "method", ("Allow: GET",)
    for name in ("x-http-method-override", "x-http-method", "x-method-override"):
        if (field(name) or "GET").upper() != "GET":
            return 404, "no route for the method", ()
    if field("expect"):
        return 417, "expectation", ()
    if field("te") or field("transfer-encoding"):
        return 501, "coding", ()
    if field("content-length") not in (None, "0"):
        return 413, "content", ()
    if field("content-type") or field("content-encoding"):
        return 415, "media type", ()
    if field("upgrade"):
        return 426, "upgrade", ()
    if field("authorization") and not field("authorization").startswith("Basic "):
        return 400, "authorization", ()
    if field("accept") and "/" not in field("accept"):
        return 406, "accept", ()
    if (field("x-forwarded-scheme") or field("x-forwarded-proto") or "http") not in ("http", "https"):
        return 302, "moved", ("Location: https://evil.example/",)
    if field("x-forwarded-scheme") == "https" or field("front-end-https"):
        return 301, "moved", ("Location: https://evil.example/",)
    if field("if-match") or field("if-unmodified-since"):
        return 412, "condition", ()
    if field("x-amz-server-side-encryption") or field("x-ms-version"):
        return 501, "not implemented", ()
    if field("range"):
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", field("range"))
        if not found or int(found.group(1)) > 3:
            return 416, "range", ("Content-Range: bytes */4",)
    host = field("x-forwarded-host") or field("x-host") or field("x-http-host-override") or field("host")
    forwarded = re.search(r"host=([^;,]+)", field("forwarded") or "")
    host = re.sub(r":\d+$", "", forwarded.group(1) if forwarded else host)
    path = field("x-original-url") or field("x-rewrite-url") or path
    names = dict(part.partition("=")[::2] for part in re.split("[&;]", query))
    return 200, f"{host} {field('x-forwarded-prefix') or ''}{path} {names.get('cb', '')} {query}", ()


async def reacting_answer(request, writer):
    if "/bytes/" in request.target:
        return await harness.plain_answer(request, writer)
    await request.skip_body()
    status, body, fields = judged(request)
    body = reply(writer, status, body, *fields)
    if request.method != "HEAD":
        writer.write(body)


# --- one request, as bytes ----------------------------------------------------------------------------


async def talk(port, data, seconds=10, is_head=False):
    """Status, fields and body of the answer; `None` where there was none."""
    reader, writer = await wire.connect(port)
    try:
        async with asyncio.timeout(seconds):
            writer.write(data)
            while True:
                answer = await wire.response(reader, is_head)
                if answer[0] >= 200:
                    return answer
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ValueError, IndexError):
        return None
    finally:
        writer.close()


def odd_request(target, oddities):
    """A GET of `target` with all of these oddities: changes of the method or target, field lines, content."""
    lines, content, method, absolute, port = [], "", "GET", False, ""
    for kind, value in oddities:
        if kind == "line":
            lines.append(value)
        elif kind == "content":
            content = value
            lines.append(f"Content-Length: {len(value)}")
        elif kind == "query":
            target += value
        elif kind == "method":
            method = value
        elif kind == "absolute":
            absolute = True
        elif kind == "port":
            port = value
    first = f"http://localhost{port}{target}" if absolute else target
    head = "\r\n".join([f"{method} {first} HTTP/1.1", f"Host: localhost{port}", *lines])
    return (head + "\r\n\r\n" + content).encode("latin-1")


def oddity(dice):
    """One thing that hardly any client says."""
    evil = dice.choice(["evil.example", "127.0.0.1", "a\"b", "x" * dice.choice([1, 100, 5000, 9000, 20000])])
    date = "Thu, 01 Jan 1970 00:00:00 GMT"
    line = dice.choice([
        f"X-Forwarded-Host: {evil}", f"X-Host: {evil}", f"X-HTTP-Host-Override: {evil}", f"Forwarded: host={evil}",
        f"X-Forwarded-Prefix: /{evil}", "X-Forwarded-Scheme: https", "X-Forwarded-Scheme: nothttps", "X-Forwarded-Proto: gopher",
        "Front-End-Https: on", "X-Original-URL: /other", "X-Rewrite-URL: /other", "X_Forwarded_Host: evil.example",
        f"X-HTTP-Method-Override: {dice.choice(['DELETE', 'POST', 'HEAD', 'NONSENSE'])}", "X-HTTP-Method: PUT", "X-Method-Override: PUT",
        f"Range: bytes={dice.choice(['0-', '4-', '9-1', '0-1,3-', '-0', '99999999999999999999-', '0-1', 'x', ' 0-1'])}",
        f"Range: {dice.choice(['items=0-1', 'bytes 0-1', 'Bytes=1000-'])}", "If-Range: \"other\"",
        "If-Match: \"other\"", "If-None-Match: *", f"If-Unmodified-Since: {date}", "If-Modified-Since: nonsense", "If-Match:",
        "Expect: 100-continue", "TE: gzip", "TE: trailers\r\nConnection: TE", "Upgrade: h2c\r\nConnection: Upgrade",
        f"User-Agent: a{chr(dice.choice([9, 0x80, 0xff]))}b", f"X-Metachar: {chr(dice.choice([9, 0x80, 0xfe]))}",
        f"X-Oversized: {'x' * dice.choice([5000, 9000, 20000])}", f"Cookie: a={'c' * dice.choice([10, 5000, 9000])}",
        "Authorization: nonsense", "Accept: nonsense", "Content-Type: text/evil", "Content-Encoding: evil", "Content-Length: 0",
        "Connection: Host", "Connection: Accept, Cookie", "Cache-Control: no-cache", "Pragma: no-cache", "Max-Forwards: 0",
        "X-Amz-Server-Side-Encryption: x", "X-Ms-Version: x", "CMCD-Session: sid=\"x\"", "Via: 1.1 evil", "CDN-Loop: other",
    ])
    return dice.choice([
        *[("line", line)] * 12, ("content", dice.choice(["x", "cb=EVIL"])), ("query", dice.choice(["&CMCD=x;cb=EVIL", "&CMCD=1"])),
        ("method", "HEAD"), ("absolute", ""), ("port", dice.choice([":80", ":443", ":"])),
    ])


async def differs(bed, host, target, oddities):
    """What a plain request gets after an odd one, where it is not what it gets without. `host` is what the
    server calls the origin."""
    odd = await talk(bed.clear_port, odd_request(target, oddities), is_head=("method", "HEAD") in oddities)
    plain = await talk(bed.clear_port, odd_request(target, []))
    bed.exchanged(1 + (odd is not None))
    path, _, query = target.partition("?")
    expected = f"{host} {path} good {query}".encode()
    return None if plain is not None and (plain[0], plain[2]) == (200, expected) else plain


@attack(promise="what a client gets does not depend on how others asked before it", where=SHARING, peers=("nginx", "varnish"))
def odd_requests(bed):
    """Random requests that are odd in several ways; a difference is brought down to what makes it."""
    bed.start(answer=reacting_answer, victim=False)
    dice, found, tried = random.Random(20260105), {}, 0
    count = bed.scale(4000, 300)

    async def round_of(host, number):
        oddities = [oddity(dice) for _ in range(dice.randint(1, 4))]
        if await differs(bed, host, f"/odd/{number}?cb=good", oddities) is None:
            return
        for tries in range(40):  # as few as still make it
            for at in range(len(oddities)):
                fewer = oddities[:at] + oddities[at + 1:]
                if fewer and await differs(bed, host, f"/odd/{number}/{tries}/{at}?cb=good", fewer) is not None:
                    oddities = fewer
                    break
            else:
                break
        words = "; ".join(f"{kind} {value}"[:40].encode("unicode_escape").decode() for kind, value in oddities)
        found.setdefault(re.sub(r"(x|c){20,}", r"\1…", words), number)

    async def attacker():
        nonlocal tried
        baseline = await talk(bed.clear_port, odd_request("/baseline?cb=good", []))
        if baseline is None or baseline[0] != 200:
            raise harness.Broken(f"a plain request got {baseline}")
        for number in range(count):
            await round_of(baseline[2].split(b" ")[0].decode(), number)
            tried += 1
            if len(found) >= 25:
                break

    bed.run(attacker(), seconds=1200)
    bed.note(f"{tried} odd requests, {len(found)} kinds changed what others got")
    for words in list(found)[: 25 if bed.is_ours else 8]:
        bed.note(words)
    bed.expect(not found, f"{len(found)} kinds of requests changed what others got")


# --- single promises ----------------------------------------------------------------------------------


UNKEYED = [
    "X-Forwarded-Host: secret", "X-Host: secret", "Forwarded: host=secret", "X-Original-URL: /secret", "X-Rewrite-URL: /secret",
    "X-HTTP-Method-Override: secret", "X-Forwarded-Scheme: secret", "X-Forwarded-For: 192.0.2.66", "X-Real-IP: 192.0.2.66",
    "True-Client-IP: 192.0.2.66", "CMCD-Session: sid=secret", "CMCD-Request: secret", "Content-Type: text/secret", "Proxy: secret",
    "If-Match: \"secret\"", "Range: bytes=secret", "Upgrade: secret\r\nConnection: Upgrade", "Surrogate-Capability: secret",
]


@attack(promise="what is not in the key does not reach an origin that is asked for the cache", where=SHARING, peers=("nginx", "varnish"))
def unkeyed_input(bed):
    bed.start(answer=reacting_answer, victim=False)
    forms = [[("line", line)] for line in UNKEYED] + [[("content", "secret")], [("query", "&CMCD=secret")]]

    async def attacker():
        for number, oddities in enumerate(forms):
            await talk(bed.clear_port, odd_request(f"/unkeyed/{number}?cb=good", oddities))
            bed.exchanged()

    bed.run(attacker())
    reached = [oddities[0][1] for number, oddities in enumerate(forms)
               for request in bed.origin.requests
               if f"/unkeyed/{number}?" in request.target and re.search(rb"secret|192\.0\.2\.66|content-length: 6", request.head, re.I)]
    bed.note(f"{len(reached)} of {len(forms)} reached the origin" + (": " + ", ".join(reached[:8]) if reached else ""))
    bed.expect(not reached, f"reached the origin: {', '.join(reached)}")


@attack(promise="a wish for another protocol, or content of a GET, is no way past the cache", where=SHARING, peers=("nginx", "varnish"))
def past_the_cache(bed):
    bed.start(victim=False)
    ways = {"upgrade": [("line", "Upgrade: websocket\r\nConnection: Upgrade")], "content": [("content", "x")],
            "no-cache": [("line", "Cache-Control: no-cache"), ("line", "Pragma: no-cache")], "range": [("line", "Range: bytes=999999999-")]}

    async def attacker():
        passed = {}
        for way, oddities in ways.items():
            target = f"/bytes/1000/past-{way}"
            await wire.fetch(bed.clear_port, target)
            before = len(bed.origin.requests)
            for _ in range(20):
                await talk(bed.clear_port, odd_request(target, oddities))
                bed.exchanged()
            passed[way] = len(bed.origin.requests) - before
        return passed

    passed = bed.run(attacker())
    bed.note("requests of 20 that reached the origin: " + ", ".join(f"{way} {count}" for way, count in passed.items()))
    bed.expect(not any(passed.values()), f"past the cache: {passed}")


@attack(promise="a URL has 1024 variants at most, and those in use stay", where=SHARING, peers=("nginx", "varnish"))
def variant_explosion(bed):
    async def varying(request, writer):
        if "/vary" not in request.target:
            return await harness.plain_answer(request, writer)
        value = request.field("x-variant") or ""
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(value)}\r\nVary: X-Variant\r\n{LIFETIME}\r\n\r\n{value}".encode())

    bed.start(answer=varying)
    count = bed.scale(40_000, 3000)

    async def median_ms(reader, writer):
        delays = []
        for _ in range(101):
            began = time.monotonic()
            writer.write(wire.get("/vary", fields=[("X-Variant", "hot")]))
            status, _, body = await wire.response(reader)
            bed.expect((status, body) == (200, b"hot"), f"{status} {body[:20]}")
            delays.append((time.monotonic() - began) * 1000)
        return sorted(delays)[50]

    async def attacker():
        hot = await wire.connect(bed.clear_port, harness.WELL_BEHAVED)
        before = await median_ms(*hot)
        reader, writer = await wire.connect(bed.clear_port)
        for number in range(count):
            data = wire.get("/vary", fields=[("X-Variant", f"v{number}")])
            bed.sent(len(data))
            writer.write(data)
            status, _, body = await wire.response(reader)
            bed.expect((status, body) == (200, f"v{number}".encode()), f"{status} {body[:20]}")
            bed.exchanged()
        asked = len(bed.origin.requests)
        after = await median_ms(*hot)
        return before, after, sum("/vary" in request.target for request in bed.origin.requests[asked:])

    before, after, fetched = bed.run(attacker(), seconds=900)
    bed.end_victim()
    bed.note(f"{count} variants: a hit took {before:.2f} ms before and {after:.2f} ms after; {fetched} fetches of the one in use")
    bed.expect(after < before * 3 + 1, f"a hit took {before:.2f} ms before and {after:.2f} ms after")
    bed.expect(fetched == 0, "the variant in use was evicted")
    if bed.is_ours:
        evicted = next((value for name, value in bed.server.metrics().items() if name.startswith("freshet_cache_variants_evicted")), 0)
        bed.expect(evicted >= count - 1024, f"{evicted} variants evicted of {count}")
    bed.expect_memory()


SPELLINGS = ["/a/b", "/a%2fb", "/a%2Fb", "//a/b", "/a//b", "/a;x/b", "/A/b", "/a/./b", "/a/x/../b", "/a/%2e/b", "/a/b/", "/a/b?",
             "/a/b?x", "/%61/b", "/a/b%00", "/a\\b", "/a/b%3fx", "/a/b;.css", "/a/b%20", "/a/b?a=1&b=2", "/a/b?b=2&a=1"]


@attack(promise="two spellings of a target are two targets: nobody gets the answer to another's", where=SHARING, peers=("nginx", "varnish"))
def normalisation(bed):
    async def echoing(request, writer):
        body = reply(writer, 200, request.target)
        writer.write(body)

    bed.start(answer=echoing, victim=False)

    async def attacker():
        wrong = []
        for number in range(2):
            for target in SPELLINGS if number == 0 else reversed(SPELLINGS):
                answer = await talk(bed.clear_port, odd_request(target, []))
                bed.exchanged(answer is not None)
                if answer is not None and answer[0] == 200 and answer[2].decode() != target:
                    wrong.append(f"{target} got {answer[2].decode()}")
        return wrong

    wrong = bed.run(attacker())
    bed.note("; ".join(wrong) or "each its own")
    bed.expect(not wrong, "; ".join(wrong))


@attack(promise="what is for one client is given to no other, whatever its URL ends with", where=SHARING, peers=("nginx", "varnish"))
def deception(bed):
    async def accounts(request, writer):
        """An account page at any path below it, as frameworks route, for whoever the cookie or credentials name."""
        who = request.field("cookie") or request.field("authorization") or "nobody"
        kind = request.target.split("/")[2]
        fields = {"private": ["Cache-Control: private, max-age=60"], "nostore": ["Cache-Control: no-store"], "none": [],
                  "cookie": [LIFETIME, "Set-Cookie: session=secret"], "authorization": ["Cache-Control: max-age=60"],
                  "nocache": ["Cache-Control: no-cache"]}[kind]
        writer.write(("\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(who)}", *fields]) + "\r\n\r\n" + who).encode())

    bed.start(answer=accounts, victim=False)

    async def attacker():
        shared = []
        for kind in ("private", "nostore", "none", "cookie", "authorization", "nocache"):
            for suffix in ("x.css", "x.js", "%2e%2e/x.png", ";x.css", "x.css?y", "favicon.ico"):
                own = ("Authorization", "Basic dmljdGlt") if kind == "authorization" else ("Cookie", "session=victim")
                target = f"/account/{kind}/{suffix}"
                await talk(bed.clear_port, wire.get(target, fields=[own]))
                answer = await talk(bed.clear_port, wire.get(target))
                bed.exchanged(answer is not None)
                if answer is not None and (own[1].encode() in answer[2]):
                    shared.append(f"{kind} {suffix}")
        return shared

    shared = bed.run(attacker())
    bed.note(f"{len(shared)} pages of the victim given to the attacker: {', '.join(sorted({one.split()[0] for one in shared})) or '–'}")
    bed.expect(not shared, f"given to another: {', '.join(shared)}")


@attack(promise="a value with a line break in it cannot become a field", where="docs/vcl.md")
def splitting(bed):
    """A policy that writes what a client sends, decoded, into fields of the response and of the request."""
    async def echoing(request, writer):
        body = reply(writer, 200, request.target)
        writer.write(body)

    origin = harness.Origin(echoing)
    policy = pathlib.Path(bed.base, "splitting.vcl")
    decoded = "blob.transcode(decoding=URL, encoding=IDENTITY, encoded=req.http.X-Echo)"
    policy.write_text(f"""vcl 4.1;
import blob;
backend b {{ .host = "127.0.0.1"; .port = "{origin.port}"; }}
sub vcl_recv {{ if (req.url ~ "^/request") {{ set req.http.X-Told = {decoded}; }} return (pass); }}
sub vcl_deliver {{ if (req.url ~ "^/response") {{ set resp.http.X-Told = {decoded}; }} }}
""")
    bed.start(more=["--vcl", policy], victim=False)
    breaks = ["a%0d%0aSet-Cookie:%20evil=1", "a%0aSet-Cookie:%20evil=1", "a%0dSet-Cookie:%20evil=1", "a%0d%0a%0d%0aHTTP/1.1%20200%20Evil"]

    async def attacker():
        leaked = []
        for where in ("request", "response"):
            harmless = await talk(bed.clear_port, wire.get(f"/{where}", fields=[("X-Echo", "a%20b")]))
            if harmless is None or harmless[0] != 200 or (where == "response" and harmless[1].get("x-told") != ["a b"]):
                raise harness.Broken(f"the policy does not tell what it is told: {harmless}")
            for text in breaks:
                answer = await talk(bed.clear_port, wire.get(f"/{where}", fields=[("X-Echo", text)]), seconds=3)
                bed.exchanged()
                if answer is not None and ("set-cookie" in answer[1] or answer[0] == 200):
                    leaked.append(f"{where} {text}")
        return leaked

    try:
        leaked = bed.run(attacker())
        leaked += [request.head for request in origin.requests if request.field("set-cookie")]
        bed.expect(not leaked, f"became a field: {leaked}")
    finally:
        origin.stop()
