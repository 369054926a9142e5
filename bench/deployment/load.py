"""Clients and an origin for a machine: load.py origin, or load.py clients PORT until they are ended.

The clients print, when they get TERM, how many requests were answered and all that failed. Half of
them open a connection for each request; the others keep theirs and open another only where the
server said that it closes.
"""

import http.client
import http.server
import json
import signal
import socket
import sys
import threading
import time

BODY = b"x" * 10_000
CLIENTS = 8


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers all with what may be kept for an hour; /slow takes three seconds."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        is_slow = self.path.startswith("/slow")
        self.send_header("Cache-Control", "no-store" if is_slow else "max-age=3600")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if is_slow:
            for _ in range(10):
                self.wfile.write(BODY[: len(BODY) // 10])
                self.wfile.flush()
                time.sleep(0.3)
        else:
            self.wfile.write(BODY)

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Origin)
    print("ready", flush=True)
    server.serve_forever()


def ask(port, keeps, over, counts, failures):
    connection = None
    number = 0
    while not over.is_set():
        number += 1
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request("GET", f"/load/{number % 50}", headers={} if keeps else {"Connection": "close"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or len(body) != len(BODY):
                raise ValueError(f"status {answer.status}, {len(body)} bytes")
            counts.append(1)
            if not keeps or answer.will_close:
                connection.close()
                connection = None
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(f"{'kept' if keeps else 'new'}: {error!r}")
            connection = None
        time.sleep(0.002)


def clients(port):
    over, counts, failures = threading.Event(), [], []
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    threads = [
        threading.Thread(target=ask, args=(port, index % 2 == 0, over, counts, failures))
        for index in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    print(json.dumps({"answered": len(counts), "failed": failures}), flush=True)


if sys.argv[1] == "origin":
    serve()
else:
    clients(int(sys.argv[2]))
