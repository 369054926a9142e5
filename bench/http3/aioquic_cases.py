"""Cases that aioquic's client asks a node (`judges` starts this in the environment that has aioquic).

usage: python aioquic_cases.py PORT CERTIFICATE PROCESS_ID CASE...

For each case one line of JSON: its name and why it failed, null if it did not. `flood` leaves handshakes open, so that
whoever comes next has to show where it is; `drain` ends the node (PROCESS_ID), so it is the last.
"""
import asyncio, contextlib, hashlib, json, os, signal, socket, sys
from aioquic.buffer import Buffer
from aioquic.h3.connection import encode_frame
from aioquic.quic.connection import QuicConnection
from aioquic.quic.logger import QuicLogger
from aioquic.tls import CipherSuite
from aioquic_client import HOST, Node, content, expect, until, whole

CASE_SECONDS_MAX = 40
# What the node lets unknown clients begin before it asks for a Retry (`HANDSHAKES_UNASKED_MAX`), and some more.
OPEN_HANDSHAKES = 110
PRIORITY_UPDATE = 0xF0700
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


@case
async def handshake(node):
    async with node.client() as client:
        await client.bytes(1000)


@case
async def chacha20(node):
    async with node.client(cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256]) as client:
        await client.bytes(100_000)
        expect(client._quic.tls.key_schedule.cipher_suite == CipherSuite.CHACHA20_POLY1305_SHA256, "another cipher was agreed on")


@case
async def transfer(node):
    async with node.client() as client:
        for count in (0, 1, 1200, 100_000, 1_000_000):
            await client.bytes(count)


@case
async def large(node):
    async with node.client() as client:
        await client.bytes(30_000_000)


@case
async def multiplexing(node):
    """As many streams as the node allows, again and again."""
    async with node.client() as client:
        await client.bytes(10)
        for answer in await asyncio.gather(*(client.get(f"/bytes/{1000 + at % 7}/{at % 50}") for at in range(400))):
            whole(answer, int(answer.path.split("/")[2]))


@case
async def small_windows(node):
    async with node.client(max_data=20_000, max_stream_data=5_000) as client:
        answers = await asyncio.gather(*(client.get(f"/bytes/{50_000 + at}/a") for at in range(10)))
        for at, answer in enumerate(answers):
            whole(answer, 50_000 + at)


@case
async def versions(node):
    """One that nobody has: the node says which it has. The second, begun with, and chosen by who began with the first (RFC 9368)."""
    second = 0x6B3343CF
    for first, spoken, last in ((0x1A2A3A4A, [0x1A2A3A4A, 1], 1), (second, [second], second), (1, [second, 1], second), (1, [1, second], 1)):
        async with node.client(quic_logger=QuicLogger(), supported_versions=spoken, original_version=first) as client:
            await client.bytes(1000)
            expect(client._quic._version == last, f"version {client._quic._version:#x}")


@case
async def resumption(node):
    tickets = []
    for _ in range(3):
        before = tickets[-1] if tickets else None
        async with node.client(tickets=tickets, session_ticket=before) as client:
            await client.bytes(1000)
            expect(client._quic.tls.session_resumed == (before is not None), "the session was not resumed")
            count = len(tickets)
            await until(lambda: tickets, "no ticket came")
            tickets = tickets[:] if len(tickets) == count else tickets


@case
async def early_data(node):
    tickets = []
    async with node.client(tickets=tickets) as client:
        await client.bytes(1000)
        await until(lambda: tickets, "no ticket came")
    expect(tickets[0].max_early_data_size, "the ticket is not for early data")
    async with node.client(session_ticket=tickets[0], waits=False) as client:
        answer = client.ask("/bytes/1000/a")
        whole(await answer.ended, 1000)
        expect(client._quic.tls.early_data_accepted, "early data was not taken")
    # Sent again by another, as its first datagram might be: a handshake, and the same answer.
    async with node.client(session_ticket=tickets[0], waits=False) as client:
        answer = client.ask("/bytes/1000/a")
        whole(await answer.ended, 1000)
        expect(not client._quic.tls.early_data_accepted, "early data was taken twice")


@case
async def early_upload(node):
    """What is no hit waits for the handshake, and its body with it."""
    tickets, body = [], content(30_000)
    async with node.client(tickets=tickets) as client:
        await client.bytes(1000)
        await until(lambda: tickets, "no ticket came")
    async with node.client(session_ticket=tickets[0], waits=False) as client:
        answer = await client.get("/sum", method="POST", body=body)
        expect(answer.body == f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode(), f"the origin got {bytes(answer.body)}")


@case
async def key_update(node):
    async with node.client() as client:
        answer = client.ask("/bytes/8000000/a")
        for part in range(1, 5):
            await until(lambda: len(answer.body) > part * 1_000_000, "nothing comes")
            client.request_key_update()
            await client.ping()
        whole(await answer.ended, 8_000_000)


async def moved(node, host, changes_id):
    async with node.client(quic_logger=QuicLogger()) as client:
        answer = client.ask("/bytes/6000000/a")
        for part in range(1, 4):
            await until(lambda: len(answer.body) > part * 1_000_000, "nothing comes")
            await client.move(host)
            if changes_id:
                client.change_connection_id()
            await client.ping()
        whole(await answer.ended, 6_000_000)
        expect(client.logged("packet_received", "path_challenge") >= 1, "the new way was not challenged")


@case
async def rebinding(node):
    await moved(node, HOST, False)


@case
async def address_change(node):
    await moved(node, "127.0.0.2", True)


@case
async def priorities(node):
    """What is asked for last and is urgent ends first, by the field and by the frame."""
    async with node.client() as client:
        await asyncio.gather(client.bytes(4_000_000), client.bytes(4_000_001))
        late = client.ask("/bytes/4000000/a", fields=[("priority", "u=7")])
        soon = client.ask("/bytes/4000001/a", fields=[("priority", "u=0")])
        await asyncio.gather(late.ended, soon.ended)
        expect(soon.ended_at < late.ended_at, "u=7 ended before u=0")
        late = client.ask("/bytes/4000000/a", fields=[("priority", "u=1")])
        soon = client.ask("/bytes/4000001/a", fields=[("priority", "u=5")])
        about = Buffer(capacity=8)
        about.push_uint_var(late.stream)
        client._quic.send_stream_data(client.http._local_control_stream_id, encode_frame(PRIORITY_UPDATE, about.data + b"u=7"))
        client.transmit()
        await asyncio.gather(late.ended, soon.ended)
        expect(soon.ended_at < late.ended_at, "what was made u=7 ended before u=5")


@case
async def incremental(node):
    """Two that are incremental share the way; of two that are not the first comes first."""
    async with node.client() as client:
        await asyncio.gather(client.bytes(4_000_000), client.bytes(4_000_001))
        for field, together in (("u=3, i", True), ("u=3", False)):
            first = client.ask("/bytes/4000000/a", fields=[("priority", field)])
            second = client.ask("/bytes/4000001/a", fields=[("priority", field)])
            await first.ended
            share = len(second.body) / 4_000_001
            await second.ended
            expect(share > 0.5 if together else share < 0.5, f"{field!r}: {share:.0%} of the second were there at the first's end")


@case
async def upload(node):
    async with node.client() as client:
        for count in (0, 1000, 5_000_000):
            body = content(count)
            answer = await client.get("/sum", method="POST", body=body, fields=[("content-length", str(count))] if count else ())
            expect(answer.body == f"{count} {hashlib.sha256(body).hexdigest()}".encode(), f"the origin got {bytes(answer.body)}")


@case
async def trailers(node):
    async with node.client() as client:
        answer = await client.get("/trailers", fields=[("te", "trailers")])
        expect(answer.status == b"200" and answer.heads[-1].get(b"x-sum") == b"last", f"heads {answer.heads}")
        body = content(5000)
        answer = await client.get("/sum", method="POST", body=body, trailers=[(b"x-end", b"yes")])
        expect(answer.body.endswith(hashlib.sha256(body).hexdigest().encode()), f"the origin got {bytes(answer.body)}")


@case
async def early_hints(node):
    async with node.client() as client:
        answer = await client.get("/hints")
        expect([head.get(b":status") for head in answer.heads] == [b"103", b"200"], f"heads {answer.heads}")


@case
async def conditions(node):
    """A part, and what did not change. Not HEAD: aioquic 1.7 takes the length of what it would have got for a mistake."""
    async with node.client() as client:
        fields = (await client.bytes(100_000)).fields
        part = await client.get("/bytes/100000/a", fields=[("range", "bytes=500-1499")])
        expect(part.status == b"206" and part.body == content(100_000)[500:1500], f"range: {part.heads}, {len(part.body)} bytes")
        same = await client.get("/bytes/100000/a", fields=[("if-none-match", fields[b"etag"].decode())])
        expect(same.status == b"304" and not same.body, f"If-None-Match: {same.heads}")


@case
async def large_fields(node):
    """Field sections of several packets, and one that is too large for the node, which says so."""
    async with node.client() as client:
        for count in (1, 20, 60):
            fields = [(f"x-field-{at}", "v" * 200) for at in range(count)] + [("cookie", "c" * 3000)]
            whole(await client.get("/bytes/1000/a", fields=fields), 1000)
        answer = await client.get("/bytes/1000/a", fields=[(f"x-field-{at}", "v" * 20_000) for at in range(5)])
        expect(answer.status == b"431", f"status {answer.status}")
        await client.bytes(1000)


@case
async def cancel(node):
    """Answers that are not wanted any more stop, and make room."""
    async with node.client() as client:
        for _ in range(150):
            answer = client.ask("/bytes/4000000/a")
            await asyncio.wait_for(answer.begun.wait(), 10)
            client._quic.stop_stream(answer.stream, 0x10C)
            client.transmit()
            with contextlib.suppress(AssertionError):
                await answer.ended
        await client.bytes(1000)


@case
async def loss(node):
    for lost in (0.02, 0.1):
        async with node.client(lost=lost) as client:
            await client.bytes(1_000_000)
            body = content(300_000)
            answer = await client.get("/sum", method="POST", body=body)
            expect(answer.body.endswith(hashlib.sha256(body).hexdigest().encode()), f"the origin got {bytes(answer.body)}")


@case
async def handshake_loss(node):
    async def one(seed):
        async with node.client(lost=0.2, seed=seed) as client:
            await client.bytes(1000)
            # Its farewell arrives, so that nothing of it is left behind.
            client.lost = 0
    await asyncio.gather(*(one(seed) for seed in range(20)))


async def flood(node):
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(OPEN_HANDSHAKES):
        begun = QuicConnection(configuration=node.configuration())
        begun.connect((HOST, node.port), now=0)
        for data, _ in begun.datagrams_to_send(now=0):
            door.sendto(data, (HOST, node.port))


@case
async def retry(node):
    await flood(node)
    async with node.client() as client:
        await client.bytes(1000)
        expect(client._quic._retry_count == 1, "no Retry was sent")


@case
async def drain(node):
    """The node is told to end: what is under way arrives whole, the client has time to read it, and then the connection
    ends without an error."""
    async with node.client() as client:
        await client.bytes(3_000_000)
        answer = client.ask("/bytes/3000000/a")
        await answer.begun.wait()
        os.kill(node.pid, signal.SIGTERM)
        whole(await answer.ended, 3_000_000)
        await asyncio.sleep(1)
        expect(client.ended is None, "the connection was ended at once")
        await until(lambda: client.ended is not None, "the connection was not ended", seconds=10)
        expect(client.ended.error_code in (0, 0x100), f"it ended with {client.ended.error_code:#x} {client.ended.reason_phrase}")


async def main():
    node = Node(*sys.argv[1:4])
    for name in sys.argv[4:]:
        why = None
        try:
            await asyncio.wait_for(flood(node) if name == "flood" else CASES[name](node), CASE_SECONDS_MAX)
        except Exception as error:  # Whatever a case ends with is its result.
            why = f"{type(error).__name__}: {error}".removeprefix("AssertionError: ")
        print(json.dumps({"case": name, "why": why}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(list(CASES)))
    else:
        asyncio.run(main())
