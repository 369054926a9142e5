"""What the measurements of tiers share: an origin of objects and a client, over loopback."""
import re, socket, sys, threading, time

BLOCK = bytes((i * 31 + i // 251) % 256 for i in range(1_000_000))


def origin():
    """A server of HTTP/1.1 that has every object: small ones below /s/, large ones below /l/."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def serve(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = b""
        while True:
            while b"\r\n\r\n" not in waiting:
                part = connection.recv(65536)
                if not part:
                    return
                waiting += part
            head, waiting = waiting.split(b"\r\n\r\n", 1)
            body = BLOCK if b" /l/" in head else BLOCK[:1000]
            connection.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=9000\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def ask(connection, target):
    """Seconds to the first byte."""
    began = time.perf_counter()
    connection.sendall(f"GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
    got = connection.recv(262144)
    first = time.perf_counter() - began
    if not got.startswith(b"HTTP/1.1 200"):
        sys.exit(f"{target}: {got[:200]}")
    head, body = got.split(b"\r\n\r\n", 1)
    left = int(re.search(rb"content-length: (\d+)", head, re.I).group(1)) - len(body)
    while left > 0:
        part = connection.recv(262144)
        if not part:
            sys.exit(f"{target}: broken off")
        left -= len(part)
    return first


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
