"""What every attack has at hand: a server under attack, an origin that does what it is told, a
well-behaved client that goes on meanwhile, and figures of all of them.

An attack is a function with a promise:

    @attack(promise="a head that does not come on ends after limits.request_timeout",
            where="docs/configuration.md, [limits]", peers=("nginx",))
    def slow_heads(bed):
        bed.start(settings={"limits.request_timeout": "2s"})
        ...

`bed.expect(condition, words)` says whether the promise held; it counts for Freshet, and is only told of
peers. An attack that exchanged nothing (`bed.exchanged(n)` was never above 0) has failed.
"""
import asyncio, contextlib, ctypes, dataclasses, fcntl, json, logging, os, pathlib, re, resource, shutil, signal, socket, struct, subprocess, sys, threading
import time, urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import servers  # noqa: E402

# Resident memory besides `--memory` and what an idle node has: parts of the program that were not used before, the
# allocator's slack and two workers' buffers (docs/operations.md, What clients can make a node hold).
BESIDES_MB = 32
# The least time that others are watched for.
VICTIM_SECONDS_MIN = 0.5
# And for each connection an attacker keeps open, requests under way and TLS included.
CONNECTION_KB = 64
# Attackers come from networks of their own, so that shares by network can tell them from others.
ATTACKER, OTHER_ATTACKER, WELL_BEHAVED = "127.9.1.1", "127.9.2.1", "127.0.0.1"

# What a socket's send buffer grows to in the attacks' network, where usual are megabytes; and what a packet takes, so
# that the buffer has many.
SEND_BUFFER_BYTES, MTU_BYTES = 64 << 10, 1500
# <linux/sched.h>, <linux/sockios.h>, <linux/if.h>
CLONE_NEWNET, SIOCSIFFLAGS, SIOCSIFMTU, IFF_UP = 0x4000_0000, 0x8914, 0x8922, 1

ATTACKS = []


@dataclasses.dataclass
class Attack:
    family: str
    name: str
    promise: str
    where: str
    peers: tuple
    long_only: bool
    run: object


def attack(promise, where, peers=(), long_only=False):
    """Registers an attack under the name of its function. `long_only` ones are not in the short form."""
    def register(function):
        family = function.__module__
        ATTACKS.append(Attack(family, function.__name__, promise, where, tuple(peers), long_only, function))
        return function
    return register


class Broken(Exception):
    """The attack itself could not be done: that is no verdict of the server."""


class Skipped(Exception):
    """This machine does not let the attack be done: it says why, and counts as neither held nor not."""


class Freshet(servers.Server):
    """A node with an admin interface, files of its own, and its log kept."""
    name = "freshet"

    def start(self):
        self.admin_port = servers.free_port()
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        command = [servers.freshet_program(), "serve", "--listen", f"127.0.0.1:{self.clear_port}", "--listen-tls", f"127.0.0.1:{self.tls_port}",
                   "--cert", self.certificate, "--key", self.key, "--memory", f"{self.memory_mb}MB", "--workers", str(self.workers),
                   "--admin", f"127.0.0.1:{self.admin_port}"]
        if not any(word == "--vcl" for word in self.more):
            command += ["--origin", f"http://127.0.0.1:{self.origin_port}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        os.environ["RUNTIME_DIRECTORY"] = str(self.runtime)
        self.spawn([*command, *self.more], [self.clear_port, self.tls_port])

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def metrics(self):
        """Samples of /metrics by name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+-]+)", text, re.M)}


class Charged:
    """What the kernel charges a server for, its sockets' buffers and pages that only they still refer to included: a
    memory control group of its own, where one can be made."""

    def __init__(self, processes):
        for parent, usage in (("/sys/fs/cgroup/memory", "memory.usage_in_bytes"), ("/sys/fs/cgroup", "memory.current")):
            folder = pathlib.Path(parent, f"freshet-attack-{os.getpid()}")
            try:
                folder.mkdir(exist_ok=True)
                for process in processes:
                    (folder / "cgroup.procs").write_text(str(process.pid))
                self.usage, self.folder = folder / usage, folder
                self.usage.read_text()
                return
            except OSError:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        self.folder = None

    def megabytes(self):
        return int(self.usage.read_text()) / 1e6 if self.folder else 0

    def end(self):
        if self.folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


class Nginx(servers.Nginx):
    settings = {}


class NginxHttp3(Nginx):
    """An nginx that was built with its module for HTTP/3, which Debian's is not: $NGINX_NEW."""
    name, program, has_http3 = "nginx-http3", os.environ.get("NGINX_NEW", ""), True


class Varnish(servers.Varnish):
    settings = {}


class HAProxy(servers.Server):
    """HAProxy as a proxy with its defaults and usual time limits; it keeps nothing here."""
    name, package, settings = "haproxy", "haproxy", {}

    def start(self):
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(f"""
global
  maxconn 9500
  nbthread {self.workers}
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 60s
  timeout http-request 30s
frontend f
  bind 127.0.0.1:{self.clear_port}
  bind 127.0.0.1:{self.tls_port} ssl crt {self.base}/both.pem alpn h2,http/1.1
  default_backend b
backend b
  server o 127.0.0.1:{self.origin_port} maxconn 1024
""")
        self.spawn(["haproxy", "-db", "-f", configuration], [self.clear_port, self.tls_port])


SERVERS = {server.name: server for server in (Freshet, Nginx, NginxHttp3, Varnish, HAProxy)}
PROGRAMS = {"nginx": "nginx", "nginx-http3": NginxHttp3.program, "varnish": "varnishd", "haproxy": "haproxy"}
# Those beside whom attacks over HTTP/3 are done.
HTTP3_PEERS = ("nginx-http3",) if NginxHttp3.program else ()


def established(port):
    """Connections that are open at a port of 127.0.0.1 and have not been closed there."""
    here = f":{port:04X}"
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(1 for row in rows if row[1].endswith(here) and row[3] == "01")


class Origin:
    """An HTTP/1.1 origin in a thread. `answer(request, writer)` is a coroutine that writes what it likes;
    without one a path `/bytes/N/...` gets N bytes with a lifetime, and `?slow=S` waits S seconds before."""

    def __init__(self, answer=None):
        self.answer = answer or plain_answer
        self.requests = []
        self.connections = 0
        self.open = 0
        self.open_max = 0
        started = threading.Event()
        self.loop = asyncio.new_event_loop()

        def run():
            asyncio.set_event_loop(self.loop)
            self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=8192, limit=1 << 22))
            self.port = self.server.sockets[0].getsockname()[1]
            started.set()
            self.loop.run_forever()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        started.wait()

    async def serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = Request(head, reader)
                self.requests.append(request)
                await self.answer(request, writer)
                await request.skip_body()
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, EOFError):
            pass
        finally:
            self.open -= 1
            writer.close()

    def established(self):
        """Connections that the server has open: what it has closed may be asleep here."""
        return established(self.port)

    def stop(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def end(self):
        self.server.close()
        serving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


class Request:
    """What an origin was asked."""

    def __init__(self, head, reader):
        self.head = head
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target = first.split(" ")[:2]
        self.fields = [tuple(part.strip() for part in line.split(":", 1)) for line in lines if ":" in line]
        self.reader = reader
        self.rest = int(self.field("content-length") or 0)
        self.is_chunked = "chunked" in (self.field("transfer-encoding") or "")

    def field(self, name):
        return next((value for key, value in self.fields if key.lower() == name), None)

    async def skip_body(self):
        while self.rest > 0:
            got = await self.reader.read(min(self.rest, 1 << 16))
            if not got:
                raise EOFError
            self.rest -= len(got)
        while self.is_chunked:
            size = int((await self.reader.readline()).split(b";")[0] or b"0", 16)
            await self.reader.readexactly(size + 2)
            self.is_chunked = size > 0


def body_of(target, count):
    """`count` bytes that only this target has."""
    seed = (target.split("?")[0] + "|").encode()
    return (seed * (count // len(seed) + 1))[:count]


async def plain_answer(request, writer):
    await request.skip_body()  # An answer ahead of its request's body would end what the body does.
    found = re.search(r"/bytes/(\d+)", request.target)
    slow = re.search(r"slow=([\d.]+)", request.target)
    if slow:
        await asyncio.sleep(float(slow.group(1)))
    body = body_of(request.target, int(found.group(1)) if found else 100)
    control = "no-store" if "nostore" in request.target else "max-age=3600"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nCache-Control: {control}\r\n\r\n".encode())
    if request.method != "HEAD":
        writer.write(body)


class Bed:
    """One attack on one server: what it may use, and what is measured meanwhile."""

    def __init__(self, server_name, folder, short, keep_log=None, overrides=None):
        self.server_name, self.base, self.short, self.overrides = server_name, folder, short, overrides or {}
        self.is_ours = server_name == "freshet"
        self.server = self.origin = self.victim = self.watcher = None
        self.failures, self.notes, self.facts, self.skipped = [], [], {}, None
        self.crowds = []
        self.attacker_bytes = self.attacker_connections = self.exchanges = 0
        self.keep_log = keep_log

    # --- setting up ---

    def scale(self, full, short):
        """A number that is smaller in the short form."""
        return short if self.short else full

    def start(self, memory_mb=32, answer=None, settings=None, more=(), workers=1, victim=True, policy=None):
        """Starts origin, server and a well-behaved client. `settings` are keys of freshet.toml, of which
        peers know nothing; `policy` is a text in VCL, with ORIGIN for its port. Ends with objects `/bytes/1000/hot-N` cached."""
        if not self.is_ours and shutil.which(PROGRAMS[self.server_name]) is None:
            raise Broken(f"{PROGRAMS[self.server_name]} is missing: apt-get install {SERVERS[self.server_name].package}")
        self.origin = Origin(answer)
        self.server = SERVERS[self.server_name](self.base, self.origin.port, workers=workers, processors=None, memory_mb=memory_mb)
        if policy:
            file = self.server.folder / "policy.vcl"
            file.write_text(policy.replace("ORIGIN", str(self.origin.port)))
            more = [*more, "--vcl", file]
        self.server.settings, self.server.more = {**(settings or {}), **self.overrides}, [str(word) for word in more]
        self.server.start()
        self.clear_port, self.tls_port = self.server.clear_port, self.server.tls_port
        self.charged = Charged(self.server.processes)
        self.before_mb = self.server.resident_mb()
        self.facts["rss before, MB"] = round(self.before_mb)
        self.processor_before = self.server.processor_seconds()
        self.peak_mb, self.charged_mb, self.watching = 0, 0, True
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        self.memory_mb = memory_mb
        if victim:
            command = [sys.executable, str(pathlib.Path(__file__).with_name("victim.py")), str(self.clear_port)]
            self.victim = subprocess.Popen(command, stdout=subprocess.PIPE)
            self.victim.stdout.readline()  # It has the hot objects.
            self.victim_began = time.monotonic()

    def watch(self):
        while self.watching:
            try:
                self.peak_mb = max(self.peak_mb, self.server.resident_mb())
                self.charged_mb = max(self.charged_mb, self.charged.megabytes())
            except OSError:  # A peer may have made the origin, which is in this process, open all there is.
                pass
            time.sleep(0.05)

    # --- what the attack says ---

    def sent(self, count, connections=0):
        """Counts what the attacker sent."""
        self.attacker_bytes += count
        self.attacker_connections += connections

    def exchanged(self, count=1):
        """Counts what was really exchanged: an answer, or an end of a connection, that was seen."""
        self.exchanges += count

    def ended(self, lives):
        """Counts the connections that were ended, `None` being one that was not; how long each lived."""
        over = [life for life in lives if life is not None]
        self.exchanged(len(over))
        self.note(f"{len(over)} of {len(lives)} ended, the last after {max(over, default=0):.1f} s")
        return over

    def note(self, text):
        self.notes.append(text)

    def expect(self, condition, words):
        """What was promised. `words` say what was seen instead."""
        if not condition:
            self.failures.append(words)
        return condition

    def expect_memory(self, connections=0, more_mb=0):
        """Resident memory within `--memory` and the documented constants."""
        allowed = self.before_mb + self.memory_mb * 1.1 + BESIDES_MB + connections * CONNECTION_KB / 1024 + more_mb
        self.expect(self.peak_mb <= allowed, f"{self.peak_mb:.0f} MB resident, {allowed:.0f} allowed")

    def run(self, coroutine, seconds=300):
        """Runs an attacker to its end."""
        async def limited():
            return await asyncio.wait_for(coroutine, seconds)
        return asyncio.run(limited())

    def crowd(self, count, target, port=None, **more):
        """Starts `count` readers that take a byte a second (crowd.py) and returns once all have asked. Words of
        `more` are its options: `tls=True`, `sources=4`."""
        options = [word for key, value in more.items() if value is not False
                   for word in ([f"--{key}"] if value is True else [f"--{key}", str(value)])]
        command = [sys.executable, str(pathlib.Path(__file__).with_name("crowd.py")), str(port or self.clear_port), str(count), target, *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.crowds.append(process)
        if process.stdout.readline() != b"ready\n":
            raise Broken("the crowd did not come together")
        self.sent(count * (60 + len(target)), connections=count)
        return process

    def end_crowd(self, process):
        """Has a crowd leave; what it saw."""
        process.send_signal(signal.SIGTERM)
        seen = json.loads(process.communicate(timeout=120)[0])
        self.crowds.remove(process)
        self.exchanged(seen["bytes"])
        return seen

    def end_victim(self, failures_max=0, delay_ms_max=5000, miss_ms_max=None):
        """Ends the well-behaved client and holds the server to what it saw meanwhile. `miss_ms_max` is for what has to
        wait for an origin that the attack keeps busy."""
        # What is over at once is to show what it left.
        time.sleep(max(0, self.victim_began + VICTIM_SECONDS_MIN - time.monotonic()))
        self.victim.send_signal(signal.SIGTERM)
        seen = json.loads(self.victim.communicate(timeout=60)[0])
        self.victim = None
        self.facts["others: hits, misses"] = f"{seen['hits']}, {seen['misses']}"
        self.facts["others: failed"] = seen["failed"]
        again = sum("/hot-" in request.target for request in self.origin.requests) - seen["hot"]
        self.facts["others: hits fetched again"] = again
        self.facts["others: hit p50, max ms"] = f"{seen['hit_p50_ms']:.1f}, {seen['hit_max_ms']:.0f}"
        self.facts["others: miss p50, max ms"] = f"{seen['miss_p50_ms']:.1f}, {seen['miss_max_ms']:.0f}"
        self.seen = seen
        if seen["hits"] + seen["misses"] + seen["failed"] == 0:
            raise Broken("the well-behaved client did nothing")
        self.expect(seen["failed"] <= failures_max, f"{seen['failed']} requests of others failed: {seen['errors']}")
        for kind, most in (("hit", delay_ms_max), ("miss", miss_ms_max or delay_ms_max)):
            took = seen[f"{kind}_max_ms"]
            self.expect(took <= most, f"a {kind} of others took {took:.0f} ms")

    # --- the end ---

    def close(self):
        for process in [*self.crowds, *([self.victim] if self.victim else [])]:
            process.kill()
            process.wait()
        if self.server is not None:
            if self.watcher is not None:
                self.watching = False
                self.watcher.join()
                self.account()
            for process in self.server.processes:
                if process.poll() is not None:
                    self.failures.append(f"the server ended by itself with {process.returncode}")
            log = pathlib.Path(self.server.folder, "log")
            if log.exists() and "panicked" in log.read_text(errors="replace"):
                self.failures.append("the server's log has a panic")
            if self.keep_log and log.exists():
                shutil.copy(log, self.keep_log)
            self.server.stop()
            if self.watcher is not None:
                self.charged.end()
        if self.origin is not None:
            self.origin.stop()

    def account(self):
        """What the attack cost the server."""
        spent = self.server.processor_seconds() - self.processor_before
        self.facts["rss peak, MB"] = round(self.peak_mb)
        if self.charged_mb:
            self.facts["charged by the kernel since, peak MB"] = round(self.charged_mb)
        self.facts["CPU, s"] = round(spent, 2)
        if self.attacker_bytes:
            self.facts["CPU a sent KB, µs"] = round(spent * 1e9 / self.attacker_bytes)


def prepare():
    """As many descriptors as are allowed, for this program and what it starts; no words of asyncio; a network of its own."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # A peer that is gone is what attackers see.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return isolate()


def isolate():
    """Moves to a new network with nothing but a loopback, whose sockets take little of what is sent: bytes that a client
    does not read have to wait in the server, and not in the kernel. Whether that was allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return False
    with socket.socket() as control:
        fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si", b"lo", MTU_BYTES))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    for name, value in (("tcp_wmem", f"4096 16384 {SEND_BUFFER_BYTES}"), ("tcp_congestion_control", "reno")):
        pathlib.Path("/proc/sys/net/ipv4", name).write_text(value)
    return True


def run_one(one, server_name, short, keep_log=None, overrides=None):
    """Runs an attack on a server and returns its bed, with what was seen in it."""
    folder = servers.work_folder("attack")
    bed = Bed(server_name, folder, short, keep_log, overrides)
    began = time.monotonic()
    try:
        one.run(bed)
        if bed.exchanges == 0:
            bed.failures.append("nothing was exchanged, so nothing is shown")
    except Skipped as reason:
        bed.skipped = str(reason)
    except Broken as error:
        bed.failures.append(f"not done: {error}")
    except Exception as error:  # an attack that dies has shown nothing, and the others go on
        bed.failures.append(f"not done: {type(error).__name__}: {error}")
    finally:
        bed.close()
        shutil.rmtree(folder, ignore_errors=True)
    bed.seconds = time.monotonic() - began
    return bed
