"""What attackers speak: raw HTTP/1 and HTTP/2, with nothing that would keep them from breaking rules."""
import asyncio, socket, ssl, struct, time

import harness

# A port is chosen with the peer, so that one address has more than 28,000 (Linux, ip(7)).
IP_BIND_ADDRESS_NO_PORT = 24

# --- connections -------------------------------------------------------------------------------------


async def connect(port, source=harness.ATTACKER, tls=False, alpn=("http/1.1",), receive_bytes=None):
    """A new connection from a network of the attacker's. `receive_bytes` makes all buffers between here and the
    server small, asyncio's included, so that what is not read is not taken."""
    plain = socket.socket()
    plain.setblocking(False)
    if receive_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    limit = 1 << 22 if receive_bytes is None else 4096
    plain.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    plain.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
    if not tls:
        return await asyncio.open_connection(sock=plain, limit=limit)
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(list(alpn))
    reader, writer = await asyncio.open_connection(sock=plain, ssl=context, server_hostname="localhost", limit=limit)
    if receive_bytes is not None:
        writer.transport.set_read_buffer_limits(high=limit)
    return reader, writer


async def connect_many(port, count, source=harness.ATTACKER, **more):
    """That many connections, some dozens at a time."""
    gate = asyncio.Semaphore(64)

    async def one():
        async with gate:
            return await connect(port, source, **more)
    return await asyncio.gather(*(one() for _ in range(count)))


async def ended(reader, seconds):
    """Whether the server ends the connection within this time; what it still says is thrown away."""
    try:
        async with asyncio.timeout(seconds):
            while await reader.read(1 << 16):
                pass
        return True
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True


async def drip(bed, connection, parts, limit_s):
    """Sends parts a second apart; how long the connection lived, `None` where it outlived the limit."""
    reader, writer = connection
    began = time.monotonic()
    try:
        for part in parts:
            writer.write(part)
            bed.sent(len(part))
            if await ended(reader, 1.0):
                return time.monotonic() - began
            if time.monotonic() - began > limit_s:
                return None
        return time.monotonic() - began if await ended(reader, limit_s) else None
    except ConnectionError:
        return time.monotonic() - began
    finally:
        writer.close()


# --- HTTP/1 ------------------------------------------------------------------------------------------


def get(target, host="localhost", fields=(), method="GET"):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def response(reader, is_head=False):
    """Status, fields and body of the next response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    fields = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.lower(), []).append(value.strip())
    if is_head or status in (204, 304) or status < 200:
        return status, fields, b""
    if "chunked" in ",".join(fields.get("transfer-encoding", [])):
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while await reader.readline() != b"\r\n":
            pass
        return status, fields, body
    if "content-length" in fields:
        return status, fields, await reader.readexactly(int(fields["content-length"][0]))
    return status, fields, await reader.read()


async def fetch(port, target, source=harness.WELL_BEHAVED, **more):
    """One request over a connection of its own."""
    reader, writer = await connect(port, source)
    try:
        writer.write(get(target, **more))
        return await response(reader, more.get("method") == "HEAD")
    finally:
        writer.close()


# --- HTTP/2 ------------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 16
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    """SETTINGS by identifier: header_table=1, push=2, streams=3, window=4, frame=5, list=6."""
    numbers = {"header_table": 1, "push": 2, "streams": 3, "window": 4, "frame": 5, "list": 6}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def integer(value, bits, first=0):
    """An HPACK integer (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def literal(name, value, indexed=False):
    """A field as a literal with a literal name; `indexed` puts it into the peer's table."""
    name, value = name.encode(), value.encode()
    return (b"\x40" if indexed else b"\x00") + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(target, method="GET", authority="localhost", scheme="http", fields=()):
    pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", target)]
    return b"".join(literal(name, value) for name, value in [*pseudo, *fields])


def request(stream, target, ends=True, **more):
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block(target, **more))


def window_update(stream, count):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count))


async def read_frame(reader):
    """Kind, flags, stream and payload of the next frame; `None` at the end."""
    try:
        head = await reader.readexactly(9)
        payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return None
    return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7fff_ffff, payload


async def open_h2(port, source=harness.ATTACKER, tls=False, **wanted):
    """A connection with its preface and settings sent; clear ones by prior knowledge."""
    reader, writer = await connect(port, source, tls, ("h2",))
    writer.write(PREFACE + settings(**wanted))
    await writer.drain()
    return reader, writer
