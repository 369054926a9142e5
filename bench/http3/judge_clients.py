"""Clients of others, each a thing with a `name`, the `cases` it can do, and whether it `is_there`. Called with a case, a node and
a folder it raises AssertionError where something is not as it has to be."""
import base64, contextlib, hashlib, json, os, pathlib, random, re, shutil, subprocess, time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 60
# What pages told the origin.
REPORTS = []


def content(count):
    """What the origin has under /bytes/COUNT/."""
    return random.Random(count).randbytes(count)


def run(command, seconds=SECONDS_MAX):
    """What a client said, and its status; it is ended when it takes too long."""
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        return None, error.stdout or b""


def expect(holds, why):
    if not holds:
        raise AssertionError(why)


class Aioquic:
    """The cases are in aioquic_cases.py."""
    name = "aioquic"

    def __init__(self, given):
        self.python = given.venv / "bin/python"
        self.is_there = self.python.exists() and run([self.python, "-c", "import aioquic"])[0] == 0
        self.cases = json.loads(run([self.python, HERE / "aioquic_cases.py", "--list"])[1]) if self.is_there else []

    def __call__(self, case, node, folder):
        _, said = run([self.python, HERE / "aioquic_cases.py", node.port, node.certificate, node.process.pid, case])
        lines = said.decode(errors="replace").splitlines()
        why = json.loads(lines[-1])["why"] if lines and lines[-1].startswith("{") else f"it said: {' '.join(lines)[-300:]}"
        expect(why is None, why)


class Ngtcp2:
    """One run of its client for a case: its flags, sizes of what it gets, and what has to be in its debug output."""
    name = "ngtcp2"
    LARGE = [30_000_000]
    CASES = {
        "handshake": ([], [1000], r"egotiated ALPN is h3"),
        "transfer": ([], [1, 1200, 100_000, 1_000_000], None),
        "large": ([], LARGE, None),
        "multiplexing": (["-n", "300"], list(range(1000, 1300)), None),
        "small-windows": (["--max-data=20K", "--max-stream-data-bidi-local=5K", "--max-window=20K", "--max-stream-window=5K"],
                          list(range(50_000, 50_008)), None),
        "chacha20": (["--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305"], [100_000], None),
        "versions": (["--version=0x1a2a3a4a", "--preferred-versions=v1"], [1000], r"type=VN"),
        "key-update": (["--key-update=10ms"], LARGE, r"pdating traffic key"),
        # Up, as a client that does not speak after it has another address is found by nobody.
        "rebinding": (["--change-local-addr=10ms", "--nat-rebinding", "-m", "POST", "-d", "BODY"], [], r"tx .* PATH_RESPONSE"),
        "address-change": (["--change-local-addr=10ms"], LARGE, r"tx .* PATH_RESPONSE"),
        "upload": (["-m", "POST", "-d", "BODY"], [], None),
        "loss": (["-t", "0.05", "-r", "0.05"], [1_000_000, 100_000], None),
        "early-data": ([], [1000], r"type=0RTT"),
        "retry": ([], [1000], r"type=Retry"),
    }

    def __init__(self, given):
        self.program = os.environ.get("NGTCP2_CLIENT") or shutil.which("gtlsclient")
        self.aioquic = Aioquic(given)
        self.is_there = self.program is not None
        # Only the other client begins handshakes that it never goes on with.
        self.cases = [case for case in self.CASES if case != "retry" or self.aioquic.is_there]

    def __call__(self, case, node, folder):
        flags, sizes, shown = self.CASES[case]
        got, state, body = folder / "got", folder / "state", content(8_000_000)
        shutil.rmtree(got, ignore_errors=True)
        got.mkdir()
        (folder / "body").write_bytes(body)
        flags = [str(folder / "body") if flag == "BODY" else flag for flag in flags]
        remembers = case == "early-data"
        remembered = [f"--session-file={state}.tls", f"--tp-file={state}.quic"] if remembers else []
        # A file is named as the path ends.
        wanted = {str(size): content(size) for size in sizes} or {"sum": f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode()}
        paths = [f"/bytes/{size}/{size}" for size in sizes] or ["/sum"]
        if case == "retry":
            self.aioquic("flood", node, folder)
        for _ in range(2 if remembers else 1):
            status, said = run([self.program, "--exit-on-all-streams-close", "--no-quic-dump", "--no-http-dump", f"--download={got}",
                                "--timeout=20s", *flags, *remembered, "127.0.0.1", node.port,
                                *(f"https://localhost:{node.port}{path}" for path in paths)])
        said = said.decode(errors="replace")
        expect(status == 0, f"it ended with status {status}: {said[-300:]}")
        expect(shown is None or re.search(shown, said), f"nothing in what it said has {shown!r}")
        for name, bytes_of in wanted.items():
            expect((got / name).exists() and (got / name).read_bytes() == bytes_of, f"{name}: it has other bytes")


CURL = """
import curl_cffi, hashlib, json, sys
from curl_cffi import CurlHttpVersion
port, certificate, method, path, body, fields = sys.argv[1:7]
said = curl_cffi.request(method, f"https://localhost:{port}{path}", verify=certificate, http_version=CurlHttpVersion.V3ONLY,
                         data=open(body, "rb").read() if body else None, headers=json.loads(fields), timeout=30)
print(json.dumps([said.status_code, dict(said.headers), len(said.content), hashlib.sha256(said.content).hexdigest()]))
"""


class Curl:
    """curl, or its library under Python."""
    name = "curl"

    def __init__(self, given):
        version = run(["curl", "-V"])[1] if shutil.which("curl") else b""
        self.has_http3, self.python = b"HTTP3" in version, given.venv / "bin/python"
        self.is_there = self.has_http3 or (self.python.exists() and run([self.python, "-c", "import curl_cffi"])[0] == 0)
        self.cases = ["handshake", "transfer", "large", "upload", "conditions", "retry"]
        self.cases = self.cases[:-1] if not Aioquic(given).is_there else self.cases
        self.aioquic = Aioquic(given)

    def ask(self, node, folder, path, method="GET", body=None, fields=()):
        """Status, fields in small letters, count of bytes and their sum."""
        fields = dict(fields)
        if not self.has_http3:
            status, said = run([self.python, "-c", CURL, node.port, node.certificate, method, path, body or "", json.dumps(fields)])
            expect(status == 0, said.decode(errors="replace")[-300:])
            code, heads, count, total = json.loads(said.splitlines()[-1])
            return code, {name.lower(): value for name, value in heads.items()}, count, total
        out, heads = folder / "curl.body", folder / "curl.heads"
        out.write_bytes(b"")
        flags = (["-I"] if method == "HEAD" else ["-X", method]) + (["--data-binary", f"@{body}"] if body else [])
        status, said = run(["curl", "-sS", "--http3-only", "--cacert", node.certificate, "-D", heads, "-o", out, "-w", "%{http_code}", *flags,
                            *(word for field in fields.items() for word in ("-H", ": ".join(field))), f"https://localhost:{node.port}{path}"])
        expect(status == 0, said.decode(errors="replace")[-300:])
        rows = (line.split(":", 1) for line in heads.read_text().splitlines() if ":" in line)
        body = out.read_bytes() if method != "HEAD" else b""
        return int(said), {name.lower(): value.strip() for name, value in rows}, len(body), hashlib.sha256(body).hexdigest()

    def whole(self, node, folder, count):
        code, heads, _, total = self.ask(node, folder, f"/bytes/{count}/a")
        expect(code == 200 and total == hashlib.sha256(content(count)).hexdigest(), f"{count} bytes: status {code}, or wrong ones")
        return heads

    def __call__(self, case, node, folder):
        if case == "retry":
            self.aioquic("flood", node, folder)
        if case in ("handshake", "retry"):
            self.whole(node, folder, 1000)
        elif case == "transfer":
            for count in (0, 1, 1200, 100_000, 1_000_000):
                self.whole(node, folder, count)
        elif case == "large":
            self.whole(node, folder, 30_000_000)
        elif case == "upload":
            body = folder / "body"
            body.write_bytes(content(3_000_000))
            told = f"3000000 {hashlib.sha256(content(3_000_000)).hexdigest()}".encode()
            code, _, _, total = self.ask(node, folder, "/sum", "POST", str(body))
            expect(code == 200 and total == hashlib.sha256(told).hexdigest(), f"status {code}, or the origin got something else")
        elif case == "conditions":
            tag = self.whole(node, folder, 100_000)["etag"]
            code, heads, count, _ = self.ask(node, folder, "/bytes/100000/a", "HEAD")
            expect((code, heads["content-length"], count) == (200, "100000", 0), f"HEAD: {code} {heads}")
            code, _, _, total = self.ask(node, folder, "/bytes/100000/a", fields={"Range": "bytes=500-1499"})
            expect(code == 206 and total == hashlib.sha256(content(100_000)[500:1500]).hexdigest(), f"range: {code}")
            code, _, count, _ = self.ask(node, folder, "/bytes/100000/a", fields={"If-None-Match": tag})
            expect((code, count) == (304, 0), f"If-None-Match: {code}, {count} bytes")


class Chromium:
    """A page asks and tells the origin what became of it; its first request is over HTTP/3 already."""
    name = "chromium"

    def __init__(self, given):
        self.program = shutil.which("chromium") or shutil.which("chromium-browser")
        self.is_there, self.said = self.program is not None, {}
        self.cases = re.findall(r'ask\("([a-z0-9-]+)"', (HERE / "judge.html").read_text())

    def __call__(self, case, node, folder):
        if node.port not in self.said:
            self.said[node.port] = self.visit(node, folder)
        why = self.said[node.port].get(case, "the page said nothing of it")
        expect(why is None, why)

    def visit(self, node, folder):
        key = subprocess.run(["openssl", "x509", "-in", node.certificate, "-pubkey", "-noout"], capture_output=True, check=True).stdout
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True, check=True).stdout
        pin = base64.b64encode(hashlib.sha256(der).digest()).decode()
        REPORTS.clear()
        command = [self.program, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium", "--no-first-run",
                   "--enable-quic", f"--origin-to-force-quic-on=localhost:{node.port}", "--host-resolver-rules=MAP localhost 127.0.0.1",
                   f"--ignore-certificate-errors-spki-list={pin}", f"https://localhost:{node.port}/judge.html"]
        with open(folder / "chromium.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as browser:
            end = time.monotonic() + SECONDS_MAX
            while not REPORTS and time.monotonic() < end and browser.poll() is None:
                time.sleep(0.1)
            browser.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                browser.wait(10)
            browser.kill()
        return REPORTS[0] if REPORTS else {}


CLIENTS = {client.name: client for client in (Aioquic, Ngtcp2, Curl, Chromium)}
