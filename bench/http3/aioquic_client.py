"""aioquic as a client of HTTP/3 that can be moved, loses datagrams, and keeps what comes for each request."""
import asyncio, contextlib, random, socket, time
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

HOST = "127.0.0.1"


def expect(holds, why):
    if not holds:
        raise AssertionError(why)


def content(count):
    """What the origin has under /bytes/COUNT/."""
    return random.Random(count).randbytes(count)


class Answer:
    def __init__(self, path):
        self.path, self.heads, self.body, self.ended_at = path, [], bytearray(), None
        self.ended, self.begun = asyncio.get_running_loop().create_future(), asyncio.Event()

    @property
    def status(self):
        """That of the response itself: heads before it are 1xx, one after it is trailers."""
        return next((head[b":status"] for head in self.heads if head.get(b":status", b"1")[0:1] != b"1"), None)

    @property
    def fields(self):
        return next(head for head in self.heads if head.get(b":status", b"1")[0:1] != b"1")


class Client(QuicConnectionProtocol):
    """HTTP/3 over a connection of aioquic, whose socket can be changed and whose datagrams can be lost."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.answers, self.resets, self.ended = None, {}, {}, None
        self.lost, self.dice = 0.0, random.Random()
        # What it has sent, where somebody keeps that.
        self.recorded = None

    # The protocol's side of a socket, with losses.
    def connection_made(self, transport):
        super().connection_made(transport)
        def send(data, to):
            if self.recorded is not None:
                self.recorded.append(data)
            if self.dice.random() >= self.lost:
                transport.sendto(data, to)

        self._transport = Lossy(transport, send)

    def datagram_received(self, data, addr):
        if self.dice.random() >= self.lost:
            super().datagram_received(data, addr)

    def connection_lost(self, error):
        pass

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event
            for answer in self.answers.values():
                if not answer.ended.done():
                    answer.ended.set_exception(AssertionError(f"the connection ended: {event.error_code:#x} {event.reason_phrase}"))
        if isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
            answer = self.answers.get(event.stream_id)
            if answer is not None and not answer.ended.done():
                answer.ended.set_exception(AssertionError(f"reset: {event.error_code:#x}"))
        for heard in self.h3().handle_event(event):
            answer = self.answers.get(heard.stream_id)
            if answer is None or answer.ended.done():
                continue
            if isinstance(heard, HeadersReceived):
                answer.heads.append(dict(heard.headers))
            elif isinstance(heard, DataReceived):
                answer.body += heard.data
            answer.begun.set()
            if heard.stream_ended:
                answer.ended_at = time.monotonic()
                answer.ended.set_result(answer)

    def h3(self):
        self.http = self.http or H3Connection(self._quic)
        return self.http

    def ask(self, path, method="GET", fields=(), body=None, trailers=None, ends=True):
        """Sends a request; its answer's `ended` is awaited for all of it. Without `ends` more of its body would follow."""
        http = self.h3()
        stream = self._quic.get_next_available_stream_id()
        head = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        http.send_headers(stream, head + [(name.encode(), value.encode()) for name, value in fields], end_stream=body is None)
        if body is not None:
            http.send_data(stream, body, end_stream=ends and trailers is None)
        if trailers is not None:
            http.send_headers(stream, trailers, end_stream=True)
        self.answers[stream] = answer = Answer(path)
        answer.stream = stream
        self.transmit()
        return answer

    async def get(self, path, **more):
        return await self.ask(path, **more).ended

    async def bytes(self, count, name="a"):
        """Gets an object and looks at every byte of it."""
        return whole(await self.get(f"/bytes/{count}/{name}"), count)

    async def move(self, host):
        """Goes on from another port of `host`."""
        door = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        door.bind((f"::ffff:{host}", 0))
        before = self._transport
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=door)
        before.close()

    def logged(self, name, frame=None):
        """How many of qlog's events have this name, and a frame of this type where one is named."""
        log = self._quic._quic_logger.to_dict()["events"]
        return sum(event["name"].endswith(name) and (frame is None or any(each["frame_type"] == frame for each in event["data"].get("frames", ())))
                   for event in log)


class Lossy:
    """A transport that sends as it is told."""

    def __init__(self, transport, send):
        self.transport, self.sendto = transport, send

    def close(self):
        self.transport.close()


def whole(answer, count):
    expect(answer.status == b"200", f"{answer.path}: status {answer.status}")
    expect(answer.body == content(count), f"{answer.path}: {len(answer.body)} bytes, of {count}, or wrong ones")
    return answer


class Node:
    def __init__(self, port, certificate, pid):
        self.port, self.certificate, self.pid = int(port), certificate, int(pid)

    def configuration(self, **more):
        known = {"max_data": 64 << 20, "max_stream_data": 16 << 20, "max_datagram_size": 1400, "congestion_control_algorithm": "cubic"}
        made = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", **known | more)
        made.load_verify_locations(self.certificate)
        return made

    @contextlib.asynccontextmanager
    async def client(self, tickets=None, waits=True, lost=0.0, seed=7, **more):
        def made(*args, **kwargs):
            client = Client(*args, **kwargs)
            client.lost, client.dice = lost, random.Random(seed)
            return client
        keep = tickets.append if tickets is not None else None
        async with connect(HOST, self.port, configuration=self.configuration(**more), create_protocol=made,
                           session_ticket_handler=keep, wait_connected=waits) as client:
            yield client


async def until(holds, why, seconds=5):
    """Waits for what datagrams under way bring."""
    end = time.monotonic() + seconds
    while not holds():
        expect(time.monotonic() < end, why)
        await asyncio.sleep(0.01)
