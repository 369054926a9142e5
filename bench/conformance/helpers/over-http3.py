"""Has clients of HTTP/1.1 ask a server over HTTP/3: over-http3.py PORT SERVER_PORT CERTIFICATE

Listens on 127.0.0.1:PORT and passes on what comes, request by request, over one connection of HTTP/3 (aioquic's) to
127.0.0.1:SERVER_PORT. It keeps and changes nothing but what belongs to a connection (RFC 9110 §7.6.1): a response is what the server
said, and one that breaks off breaks off here as well.
"""
import asyncio, http, pathlib, sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench/http3")]
sys.path += [str(folder) for folder in ROOT.glob(".cache/http3-clients/lib/python*/site-packages")]
try:
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import ConnectionTerminated, StreamReset
except ImportError as error:
    sys.exit(f"aioquic is missing ({error}): tools/setup test")

OF_CONNECTION = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te", b"host"}
NAME = b"127.0.0.1"


class Http(H3Connection):
    def _check_content_length(self, stream):
        """aioquic ends the connection for a 304 that says how long the body would be (RFC 9110 §8.6); who asks sees what is missing."""


class Upstream(QuicConnectionProtocol):
    """The connection; what comes for each stream is put into a queue of its own."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.http, self.queues, self.is_over = Http(self._quic), {}, False

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.is_over = True
            for queue in self.queues.values():
                queue.put_nowait(None)
        elif isinstance(event, StreamReset) and event.stream_id in self.queues:
            self.queues[event.stream_id].put_nowait(None)
        for heard in self.http.handle_event(event):
            if heard.stream_id in self.queues and isinstance(heard, (HeadersReceived, DataReceived)):
                self.queues[heard.stream_id].put_nowait(heard)

    async def ask(self, head, body):
        """What comes for a request, piece by piece; `None` where it breaks off."""
        stream = self._quic.get_next_available_stream_id()
        queue = self.queues[stream] = asyncio.Queue()
        try:
            self.http.send_headers(stream, head, end_stream=not body)
            if body:
                self.http.send_data(stream, body, end_stream=True)
            self.transmit()
            while True:
                heard = await queue.get()
                yield heard
                if heard is None or heard.stream_ended:
                    return
        finally:
            del self.queues[stream]


class Bridge:
    def __init__(self, port, certificate):
        self.port, self.lock, self.upstream, self.around = port, asyncio.Lock(), None, None
        self.configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", max_data=64 << 20, max_stream_data=16 << 20)
        self.configuration.load_verify_locations(certificate)

    async def connected(self):
        async with self.lock:
            if self.upstream is None or self.upstream.is_over:
                self.around = connect(NAME.decode(), self.port, configuration=self.configuration, create_protocol=Upstream)
                self.upstream = await self.around.__aenter__()
            return self.upstream

    async def serve(self, reader, writer):
        try:
            while await self.exchange(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def exchange(self, reader, writer):
        """One request and its response; false where the connection is of no use any more."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        method, target, _ = first.split(b" ", 2)
        fields = [tuple(part.strip() for part in line.split(b":", 1)) for line in lines]
        fields = [(name.lower(), value) for name, value in fields]
        known = dict(fields)
        body = await read_body(reader, known)
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", known[b"host"]), (b":path", target)]
        head += [field for field in fields if field[0] not in OF_CONNECTION]
        upstream, sent, is_chunked, left = await self.connected(), None, False, 0
        async for heard in upstream.ask(head, body):
            if heard is None:
                writer.transport.abort()
                return False
            if isinstance(heard, HeadersReceived) and sent is None:
                status = int(dict(heard.headers)[b":status"])
                has_body = method != b"HEAD" and status >= 200 and status not in (204, 304)
                length = dict(heard.headers).get(b"content-length")
                is_chunked, left = has_body and length is None, int(length or 0) if has_body else 0
                writer.write(response_head(status, heard.headers, is_chunked))
                sent = status if status >= 200 else None
            elif isinstance(heard, DataReceived) and heard.data:
                left -= len(heard.data)
                writer.write(b"%x\r\n%b\r\n" % (len(heard.data), heard.data) if is_chunked else heard.data)
            await writer.drain()
        if left > 0:
            writer.transport.abort()
            return False
        if is_chunked:
            writer.write(b"0\r\n\r\n")
        return b"close" not in known.get(b"connection", b"").lower()


async def read_body(reader, fields):
    if b"chunked" not in fields.get(b"transfer-encoding", b""):
        return await reader.readexactly(int(fields.get(b"content-length", 0)))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def response_head(status, fields, is_chunked):
    phrase = http.HTTPStatus(status).phrase if status in http.HTTPStatus._value2member_map_ else ""
    lines = [b"HTTP/1.1 %d %b" % (status, phrase.encode())]
    lines += [name + b": " + value for name, value in fields if not name.startswith(b":")]
    lines += [b"Transfer-Encoding: chunked"] if is_chunked else []
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def main(port, server_port, certificate):
    bridge = Bridge(int(server_port), certificate)
    server = await asyncio.start_server(bridge.serve, NAME.decode(), int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
