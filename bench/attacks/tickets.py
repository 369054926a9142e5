"""Session tickets that are used again, changed, kept too long, or sent with data ahead of the handshake."""
import os, pathlib, random, signal, time

import harness, openssl, wire
from harness import attack
from machine import FAKE_TIME, environment

TICKETS = "crates/net/src/tls/ticket.rs"
TARGET, BYTES = "/bytes/1000/ticket", 1000


def use(bed, session=None, number=0, **more):
    """One connection with a request; it and whether it was resumed."""
    connection = openssl.Connection(bed.tls_port, f"127.9.{1 + number % 50}.1", session, **more)
    try:
        request = wire.get(TARGET)
        bed.sent(len(session or b"") + len(request), connections=1)
        answer = connection.ask(request, BYTES)
        bed.exchanged()
        bed.expect(answer == (200, harness.body_of(TARGET, BYTES)), f"a response was {answer[0]}, {len(answer[1])} bytes")
        return connection.is_resumed, *connection.session()
    finally:
        connection.close()


@attack(promise="a ticket may be used again and from anywhere, also after a reload: it saves work and opens a connection of its own, for its name only",
        where=TICKETS, peers=("nginx", "haproxy"))
def replayed(bed):
    bed.start()
    count = bed.scale(2_000, 100)
    for is_1_2 in (False, True):
        was_resumed, session, ticket = use(bed, is_1_2=is_1_2)
        bed.expect(not was_resumed and ticket, "there was no ticket")
        resumed = sum(use(bed, session, number, is_1_2=is_1_2)[0] for number in range(count))
        bed.note(f"TLS 1.{2 if is_1_2 else 3}: one ticket resumed {resumed} of {count} connections from 50 addresses")
        bed.expect(resumed == count, f"{count - resumed} of {count} were not resumed")
        if bed.is_ours:
            os.kill(bed.server.processes[0].pid, signal.SIGHUP)
            time.sleep(0.5)
            bed.expect(use(bed, session, is_1_2=is_1_2)[0], "a ticket from before a reload was not taken")
        try:
            bed.expect(not use(bed, session, is_1_2=is_1_2, name="other.example")[0], "a ticket for one name was taken for another")
        except ConnectionError:
            bed.exchanged()
    bed.end_victim()
    bed.expect_memory(connections=1)


@attack(promise="a ticket that is forged is a full handshake, at the cost of one", where=TICKETS, peers=("nginx", "haproxy"))
def forged(bed):
    bed.start()
    count, dice = bed.scale(3_000, 150), random.Random(5)

    def spent(work):
        before = bed.server.processor_seconds()
        for number in range(count):
            work(number)
        return (bed.server.processor_seconds() - before) / count

    _, session, ticket = use(bed)
    at = session.index(ticket)

    def forge(number):
        """Changes in the key's name, in what is sealed, and throughout."""
        changed = bytearray(session)
        first, last = ((0, 16), (28, len(ticket)), (0, len(ticket)))[number % 3]
        for _ in range((1, 1, 50)[number % 3]):
            changed[at + dice.randrange(first, last)] ^= dice.randrange(1, 256)
        is_resumed = use(bed, bytes(changed), number)[0]
        bed.expect(not is_resumed, "a forged ticket was taken")

    whole, with_forged = spent(lambda number: use(bed, None, number)), spent(forge)
    bed.facts["CPU of a full handshake, µs"] = round(whole * 1e6)
    bed.facts["CPU with a forged ticket, µs"] = round(with_forged * 1e6)
    bed.end_victim()
    bed.expect(with_forged <= whole * 1.5, f"a forged ticket costs {with_forged / whole:.1f} times a full handshake")
    bed.expect_memory(connections=1)


@attack(promise="nothing sent ahead of a handshake is taken (0-RTT), so a recorded request cannot be played again", where=TICKETS, peers=("nginx", "haproxy"))
def early_data(bed):
    bed.start()
    _, session, _ = use(bed)
    early = wire.get("/bytes/10/early", method="POST", fields=[("Content-Length", "0")])
    taken = sum(use_early(bed, session, early, number) for number in range(bed.scale(200, 30)))
    reached = sum("/early" in request.target for request in bed.origin.requests)
    bed.note(f"{taken} taken, {reached} reached the origin")
    bed.end_victim()
    bed.expect(taken == 0 and reached == 0, f"{taken} requests ahead of the handshake were taken, {reached} reached the origin")
    bed.expect_memory(connections=1)


def use_early(bed, session, early, number):
    """Whether data sent early was taken; where it was not, the connection works all the same."""
    connection = openssl.Connection(bed.tls_port, f"127.9.{1 + number % 50}.1", session, early=early)
    try:
        bed.sent(len(early), connections=1)
        status, _ = connection.ask(wire.get(TARGET), BYTES)
        bed.exchanged()
        bed.expect(status == 200, f"the request after it was {status}")
        return connection.early == "taken"
    finally:
        connection.close()


@attack(promise="a ticket is good for one to two periods of its key, of 12 hours each, and a full handshake from then on", where=TICKETS)
def kept_too_long(bed):
    if not pathlib.Path(FAKE_TIME).exists():
        raise harness.Broken(f"{FAKE_TIME} is missing: apt-get install faketime")
    clock = pathlib.Path(bed.base, "clock")
    clock.write_text("+0h")
    with environment(LD_PRELOAD=FAKE_TIME, FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1"):
        bed.start(victim=False)
    _, session, _ = use(bed)
    for hours, is_good in ((0, True), (11, True), (13, True), (26, False)):
        clock.write_text(f"+{hours}h")
        is_resumed = use(bed, session)[0]
        bed.expect(is_resumed == is_good, f"after {hours} h it was {'' if is_resumed else 'not '}taken")
        # Somebody comes by, so that keys change when they are due.
        bed.expect(not use(bed)[0], "a connection without a ticket was resumed")
    bed.expect(use(bed, use(bed)[1])[0], "a new ticket was not taken")
