"""Thousands of connections that ask once and then take a byte now and then, in a process of their own: it has
descriptors of its own, and none of asyncio's buffers, which would take for them what they do not take.

usage: crowd.py PORT COUNT TARGET [--sources N] [--first NETWORK] [--tls] [--h2] [--every SECONDS] [--modulo N]
                [--whole]

In TARGET `{}` is the reader's number, modulo N. A reader has a receive buffer of a few KB. With --whole it takes its
whole answer at once and then stays idle; with --h2 it opens a connection of HTTP/2 and asks for nothing. Prints `ready` when all have asked; on SIGTERM one
line of JSON: `opened`, `answers` by status, `bytes` taken, `ended` by the server, and `last_end_s` after `ready`.
"""
import argparse, json, select, signal, socket, ssl, time

RECEIVE_BYTES, CONNECT_TIMEOUT_S = 4096, 60
STATUS_BYTES = len("HTTP/1.1 200")
IP_BIND_ADDRESS_NO_PORT = 24
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)


def opened(options, number, context):
    plain = socket.socket()
    plain.settimeout(CONNECT_TIMEOUT_S)
    if not options.whole:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    plain.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    plain.bind((f"127.9.{options.first + number % options.sources}.1", 0))
    plain.connect(("127.0.0.1", options.port))
    return context.wrap_socket(plain, server_hostname="localhost") if context else plain


class Reader:
    def __init__(self, options, number, context):
        self.socket = opened(options, number, context)
        self.fileno = self.socket.fileno
        self.taken, self.is_ended = b"", False
        target = options.target.replace("{}", str(number % (options.modulo or options.count)))
        last = "" if options.whole else "Connection: close\r\n"
        self.socket.sendall(PREFACE if options.h2 else f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        if options.h2:
            self.taken = self.socket.recv(4096)
        elif options.whole:
            self.take_whole()
        self.count = len(self.taken)
        self.socket.setblocking(False)

    def take_whole(self):
        while b"\r\n\r\n" not in self.taken:
            self.taken += self.read(4096)
        head, _, body = self.taken.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        while len(body) < length:
            body += self.read(length - len(body))

    def read(self, count):
        got = self.socket.recv(count)
        if not got:
            raise ConnectionError("ended within its answer")
        return got

    def step(self):
        """Takes a byte, if there is one; at first as many as have the status."""
        try:
            got = self.socket.recv(max(1, STATUS_BYTES - len(self.taken)))
            self.is_ended = not got
            self.count += len(got)
            if len(self.taken) < STATUS_BYTES:
                self.taken += got
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.is_ended = True

    def answer(self):
        return self.taken[9:STATUS_BYTES].decode() if self.taken.startswith(b"HTTP/1.1 ") and len(self.taken) >= STATUS_BYTES else "none"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("target")
    parser.add_argument("--sources", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--modulo", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0)
    for flag in ("--tls", "--h2", "--whole"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    context = None
    if options.tls or options.h2:
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["h2"] if options.h2 else ["http/1.1"])
    watched, readers, refused = select.epoll(), {}, 0
    for number in range(options.count):
        if over:
            break
        try:
            reader = Reader(options, number, context)
        except OSError:  # Sent away before it had asked.
            refused += 1
            continue
        readers[reader.fileno()] = reader
        watched.register(reader.fileno(), select.EPOLLRDHUP)  # Ends only: bytes wait.
    print("ready", flush=True)
    began, last_end, due = time.monotonic(), 0.0, time.monotonic()
    while not over:
        for number, _ in watched.poll(0.1, 4096):
            watched.unregister(number)
            readers[number].is_ended, last_end = True, time.monotonic() - began
        if time.monotonic() >= due:
            due += options.every
            for reader in readers.values():
                if not (reader.is_ended or options.whole or options.h2):
                    reader.step()
    answers = {}
    for reader in readers.values():
        answers[reader.answer()] = answers.get(reader.answer(), 0) + 1
    print(json.dumps({"opened": len(readers), "refused": refused, "answers": answers,
                      "bytes": sum(reader.count for reader in readers.values()),
                      "ended": sum(reader.is_ended for reader in readers.values()), "last_end_s": round(last_end, 1)}))


main()
