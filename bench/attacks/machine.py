"""What the machine does to a node: too few descriptors, full disks, odd clocks, ends at any moment."""
import asyncio, contextlib, glob, os, pathlib, random, resource, signal, subprocess, time

import servers
import wire
from harness import Broken, attack, body_of

FAKE_TIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), "libfaketime.so.1")


def ask(bed, target, port=None):
    """Status and body of one request, with a client of its own; None where there was no answer."""
    try:
        status, _, body = asyncio.run(asyncio.wait_for(wire.fetch(port or bed.clear_port, target), 30))
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return None
    bed.exchanged()
    return status, body


def expect_bytes(bed, target, count, when):
    """A response is whole and right."""
    got = ask(bed, target)
    bed.expect(got == (200, body_of(target, count)), f"{target} {when}: {'no answer' if got is None else (got[0], len(got[1]))}")


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


@contextlib.contextmanager
def environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@attack(promise="a node that has no descriptor left waits for one, and goes on when there is", where="crates/net/src/listener.rs", peers=("nginx",))
def few_descriptors(bed):
    bed.start(victim=False)
    process = bed.server.processes[0]
    for pid in servers.family(process.pid):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (256, 256))

    async def attacker():
        held = await wire.connect_many(bed.clear_port, 500)
        bed.sent(0, connections=500)
        for index, (_, writer) in enumerate(held):
            writer.write(wire.get(f"/bytes/1000/few-{index}?nostore"))
        await asyncio.sleep(bed.scale(10, 3))
        answers = await asyncio.gather(*(asyncio.wait_for(wire.response(reader), 0.5) for reader, _ in held), return_exceptions=True)
        served = [answer for answer in answers if not isinstance(answer, BaseException)]
        bed.exchanged(len(served))
        bed.note(f"{sum(answer[0] == 200 for answer in served)} of 500 requests were answered with 200, {len(served)} at all")
        for _, writer in held:
            writer.close()

    spent = bed.server.processor_seconds()
    bed.run(attacker())
    spent = bed.server.processor_seconds() - spent
    bed.expect(spent < bed.scale(10, 3) * 0.7, f"{spent:.1f} s of processor time were spent on waiting")
    deadline = time.monotonic() + 15
    while ask(bed, "/bytes/1000/after") is None and time.monotonic() < deadline:
        time.sleep(0.2)
    expect_bytes(bed, "/bytes/1000/after", 1000, "when the others had gone")


@attack(promise="a log that cannot be written costs the log, not the requests", where="docs/configuration.md, [log]")
def full_disk(bed):
    bed.start(settings={"log.access": "/dev/full"}, workers=2)
    for index in range(bed.scale(20_000, 1000)):
        if index % 100 == 0:
            expect_bytes(bed, f"/bytes/1000/full-{index}", 1000, "with a full disk")
    bed.end_victim()
    bed.expect_memory()


@attack(promise="a clock that is set does not end the node, and what was fresh by it is stale by it", where="ARCHITECTURE.md, Time")
def clock_by_days(bed):
    if not bed.is_ours:
        return
    if not pathlib.Path(FAKE_TIME).exists():
        raise Broken(f"{FAKE_TIME} is missing: apt-get install faketime")
    clock = pathlib.Path(bed.base, "clock")
    clock.write_text("+0d")
    # Only the wall clock: the monotonic one is never set.
    fake = dict(LD_PRELOAD=FAKE_TIME, FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1", DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
    with environment(**fake):
        bed.start(victim=False)
    expect_bytes(bed, "/bytes/1000/clock", 1000, "at first")
    for days in (3, -3, 0, 400, -400, 0, 3650):
        clock.write_text(f"{days:+d}d")
        asked = len(bed.origin.requests)
        for index in range(bed.scale(50, 10)):
            expect_bytes(bed, "/bytes/1000/clock", 1000, f"at {days:+d} days")
            expect_bytes(bed, f"/bytes/1000/clock-{days}-{index}", 1000, f"at {days:+d} days")
        status, fields, _ = asyncio.run(wire.fetch(bed.clear_port, "/bytes/1000/clock"))
        age = int(fields.get("age", ["0"])[0])
        bed.expect(status == 200 and 0 <= age <= 3600, f"Age was {age} at {days:+d} days")
        bed.note(f"{days:+d} days: {len(bed.origin.requests) - asked} requests at the origin, Age {age}")


class Life:
    """A node on a store that is started, told things and killed at any moment."""

    def __init__(self, bed, store):
        self.bed, self.store, self.processes = bed, store, []
        self.port = servers.free_port()
        self.home = pathlib.Path(bed.base, "lives")
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.config = pathlib.Path(bed.base, "life.toml")
        self.config.write_text("[cache]\ngrace = \"1s\"\n")
        self.process = None

    def start(self):
        command = [servers.freshet_program(), "serve", "--listen", f"127.0.0.1:{self.port}", "--admin", "off", "--memory", "64MB", "--workers", "1",
                   "--origin", f"http://127.0.0.1:{self.bed.origin.port}", "--store", f"{self.store}:256MB", "--config", str(self.config)]
        with open(pathlib.Path(self.bed.base, "lives.log"), "ab") as log, environment(RUNTIME_DIRECTORY=str(self.home)):
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        return self.process

    def wait_ready(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if self.pid() == self.process.pid:
                return True
            time.sleep(0.01)
        return False

    def pid(self):
        try:
            return int((self.home / "freshet.pid").read_text())
        except (OSError, ValueError):
            return None

    def said(self):
        """The last words of its nodes, to be told with a failure."""
        return " | ".join((pathlib.Path(self.bed.base) / "lives.log").read_text(errors="replace").splitlines()[-3:])

    def kill(self):
        """All of them, those that a hand-over started included: they are of one group."""
        for _ in range(500):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait()
            # One that its parent has left is the machine's to bury.
            time.sleep(0.02)


@attack(promise="a node that is killed at any moment starts again on its store and serves no wrong byte", where="docs/storage.md")
def killed_at_any_moment(bed):
    if not bed.is_ours:
        return
    bed.start(victim=False)
    life, rounds, chance = Life(bed, pathlib.Path(bed.base, "store")), bed.scale(60, 9), random.Random(7)
    try:
        for number in range(rounds):
            phase = ("start", "reload", "upgrade")[number % 3]
            life.start()
            if phase == "start":
                time.sleep(chance.uniform(0, 0.4))
                life.kill()
                life.start()
            if not bed.expect(life.wait_ready(), f"it did not start in round {number}, a {phase}: {life.said()}"):
                return
            for index in range(20):
                target = f"/bytes/{1000 + index * 7000}/life-{index}"
                got = ask(bed, target, life.port)
                bed.expect(got == (200, body_of(target, 1000 + index * 7000)), f"{target} in round {number} was {got and (got[0], len(got[1]))}")
            if phase != "start":
                life.config.write_text(f"[cache]\ngrace = \"{number}s\"\n")
                os.kill(life.process.pid, signal.SIGHUP if phase == "reload" else signal.SIGUSR2)
                time.sleep(chance.uniform(0, 0.4))
            life.kill()
        bed.note(f"{rounds} lives, ended in start, reload and upgrade")
    finally:
        life.kill()


@attack(promise="a store belongs to one node: a second one serves without it and says so, and gets it when the first is gone", where="docs/storage.md")
def two_nodes_on_one_store(bed):
    if not bed.is_ours:
        return
    bed.start(victim=False)
    store = pathlib.Path(bed.base, "store")
    first, second, third = (Life(bed, store) for _ in range(3))
    second.home = pathlib.Path(bed.base, "second")
    second.home.mkdir(mode=0o700)

    def expect_right(life, name):
        for index in range(10):
            target = f"/bytes/100000/one-{index}"
            bed.expect(ask(bed, target, life.port) == (200, body_of(target, 100_000)), f"{name} does not serve what is right")

    try:
        first.start()
        bed.expect(first.wait_ready(), f"the first did not start: {first.said()}")
        expect_right(first, "the first")
        # One under the name of the first does not start at all.
        third.start()
        bed.expect(third.process.wait(30) != 0, "a second node of the same name started")
        second.start()
        bed.expect(second.wait_ready(), f"the second did not start: {second.said()}")
        expect_right(second, "the second")
        expect_right(first, "the first")
        log = pathlib.Path(bed.base, "lives.log")
        deadline = time.monotonic() + 30
        while "another process has it" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        bed.expect("another process has it" in log.read_text(), "the second does not say that it has no store")
        first.kill()
        while log.read_text().count("the disk is in use") < 2 and time.monotonic() < deadline + 30:
            time.sleep(0.1)
        bed.expect(log.read_text().count("the disk is in use") == 2, "the second did not get the store when the first was gone")
        expect_right(second, "the second")
    finally:
        for life in (first, second, third):
            if life.process:
                life.kill()


@attack(promise="connections leave nothing behind: no descriptor, no file, and memory within the limit", where="ARCHITECTURE.md, Bird's-eye view", peers=("nginx",))
def short_connections(bed):
    bed.start(victim=False, workers=2)
    process = bed.server.processes[0]
    count = bed.scale(200_000, 4000)

    def burst(number):
        async def one(gate, index):
            async with gate:
                reader, writer = await wire.connect(bed.clear_port, tls=False)
                try:
                    if index % 4:
                        writer.write(wire.get("/bytes/100/short", fields=[("Connection", "close")]))
                        await wire.response(reader)
                        bed.exchanged()
                    elif index % 8:
                        writer.write(b"GET /half")
                finally:
                    writer.close()
        async def attacker():
            gate = asyncio.Semaphore(64)
            await asyncio.gather(*(one(gate, index) for index in range(number)))
        bed.run(attacker(), seconds=900)
        bed.sent(0, connections=number)

    def settled():
        deadline = time.monotonic() + 20
        before = None
        while time.monotonic() < deadline and before != (before := descriptors(process)):
            time.sleep(1)
        return before

    burst(1000)
    files, open_before, before_mb = sorted(os.listdir(bed.server.folder)), settled(), bed.server.resident_mb()
    burst(count)
    open_after, after_mb = settled(), bed.server.resident_mb()
    bed.note(f"{count} connections: {open_before} descriptors before, {open_after} after; {before_mb:.0f} MB before, {after_mb:.0f} after")
    bed.expect(open_after <= open_before + 8, f"{open_after - open_before} descriptors were left behind")
    bed.expect(after_mb <= before_mb + 24, f"{after_mb - before_mb:.0f} MB were left behind")
    bed.expect(sorted(os.listdir(bed.server.folder)) == files, "files were left behind")
    expect_bytes(bed, "/bytes/1000/after", 1000, "afterwards")
