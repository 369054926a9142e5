"""A platform for the tests of one folder, new and with nothing in it, and what stands around it."""

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

APP = "5abe4782-2c70-4e47-9a4e-0ee3a1a0fd1f"
RULE = "e0deee2b-6e50-4f33-ab09-8bf0585025d3"
# Of `secret`.
SECRET = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
CONFIG = """listen = "127.0.0.1:0"
state = "{folder}/state"
router = "{folder}/router.sock"
callbacks_allowed = ["127.0.0.1"]
[packages]
unsigned = true
[client.operator]
secret_sha256 = "{secret}"
scopes = [
  "mec_app_support", "mec_service_mgmt", "mec_platform", "rni", "location", "ui", "bwm", "mts", "dev_app",
  "amsi", "wai", "fai", "vis", "app_pkgm", "app_lcm", "granting",
]
# Names that the suite's own bodies and queries have.
[tag.UeTagA]
clients = ["10.45.0.2"]
[app.myAppInstId]
[app.appInstId01]
[[access]]
id = 1
technology = "cellular"
[device_app.context]
name = "MyNewWornderfulApp"
provider = "TTF012"
version = "v0.0.1"
soft_version = "1"
instance = "{app}"
uri = "http://10.99.0.2/"
[device_app.location]
name = "MyNewWornderfulApp"
provider = "TF012"
version = "v0.0.1"
soft_version = "1"
instance = "{app}"
uri = "http://10.99.0.2/"
[device_app.list]
name = "MyWornderfulApp"
provider = "TF012"
version = "v0.0.1"
soft_version = "1"
instance = "{app}"
uri = "http://10.99.0.2/"
[[app.{app}.traffic_rules]]
trafficRuleId = "{rule}"
filterType = "FLOW"
priority = 1
trafficFilter = [{{ dstAddress = ["203.0.113.10/32"] }}]
action = "FORWARD_DECAPSULATED"
dstInterface = {{ interfaceType = "IP", dstIpAddress = "10.99.0.2" }}
state = "INACTIVE"
[[app.{app}.dns_rules]]
dnsRuleId = "{rule}"
domainName = "www.example.com"
ipAddressType = "IP_V4"
ipAddress = "10.99.0.2"
ttl = 30
state = "ACTIVE"
"""
SIMULATOR = "[simulator]\nclients = 12\n"
RUNTIME = '[runtime]\ncpus = 1.0\nmemory_mib = 1024\nnetwork = "10.97.0.0/24"\n'


def be_router(path):
    """Answers as the edge router does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    generation = 0
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile() as lines:
            question = json.loads(lines.readline() or "{}")
            generation += question.get("ask") == "set-rules"
            answer = {"version": 1, "answer": {"generation": generation}}
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(json.dumps(answer).encode() + b"\n")


def ordered(value, like):
    """The value with members of objects in the order that they have there."""
    if isinstance(value, dict) and isinstance(like, dict):
        names = [name for name in like if name in value]
        names += [name for name in value if name not in like]
        return {name: ordered(value[name], like.get(name)) for name in names}
    if isinstance(value, list) and isinstance(like, list):
        return [ordered(one, beside) for one, beside in zip(value, like)] + value[len(like):]
    return value


def as_compared(request, answer):
    """The body of an answer with its members in the order of the request's, where both are JSON."""
    try:
        return json.dumps(ordered(json.loads(answer), json.loads(request))).encode()
    except ValueError:
        return answer


def relay(port):
    """Writes what has no meaning as the suite compares it: names of fields with capitals (they have no case,
    RFC 9110 section 5.1), and members of objects in the order of the request (they have none, RFC 8259
    section 4). Gives its own port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(client):
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            request = b""
            client.settimeout(5)
            head, length = None, 0
            while head is None or len(request) < head + length:
                data = client.recv(65536)
                if not data:
                    return
                request += data
                if head is None and b"\r\n\r\n" in request:
                    head = request.index(b"\r\n\r\n") + 4
                    found = re.search(rb"(?i)content-length: *(\d+)", request[:head])
                    length = int(found.group(1)) if found else 0
            fields, body = request[:head], request[head:]
            fields = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", fields, count=1)
            # The root of interfaces that one folder has written out.
            fields = fields.replace(b" /exampleAPI/", b" /", 1)
            server.sendall(fields.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
            answer = b"".join(iter(lambda: server.recv(65536), b""))
            head, _, answer = answer.partition(b"\r\n\r\n")
            answer = as_compared(body, answer)
            first, *fields = head.split(b"\r\n")
            parts = [field.partition(b":") for field in fields if not field.lower().startswith(b"content-length")]
            named = [name.title() + b":" + value for name, _, value in parts]
            # A response without a body says nothing of its length.
            if answer or b" 20" in first and b" 204" not in first:
                named.append(b"Content-Length: %d" % len(answer))
            client.sendall(b"\r\n".join([first, *named, b"", answer]))

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=pump, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class Platform:
    def __init__(self, program, folder, more=SIMULATOR):
        os.makedirs(folder)
        threading.Thread(target=be_router, args=(f"{folder}/router.sock",), daemon=True).start()
        with open(f"{folder}/mec.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=folder, app=APP, rule=RULE, secret=SECRET))
            file.write(more)
        command = [program, "mec", "--config", f"{folder}/mec.toml"]
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        said = self.process.stdout.readline().strip()
        self.own_port = int(re.search(r":(\d+)$", said).group(1))
        self.port = relay(self.own_port)
        form = {"grant_type": "client_credentials", "client_id": "operator", "client_secret": "secret"}
        answer, _ = self.ask("POST", "/oauth2/token", urllib.parse.urlencode(form).encode())
        self.token = answer["access_token"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, method, path, body=None, **fields):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", body, fields, method=method,
        )
        try:
            with urllib.request.urlopen(request) as response:
                return json.loads(response.read() or b"null"), response.headers
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def say(self, method, path, body):
        """A request with a token and a document."""
        fields = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self.ask(method, path, json.dumps(body).encode(), **fields)

    def make(self, path, body):
        """Makes a document, and gives its name."""
        _, headers = self.say("POST", path, body)
        return headers["Location"].rsplit("/", 1)[1]
