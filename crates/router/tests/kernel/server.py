"""server.py WORD ADDRESS: says who it is and whom it sees, over HTTP on port 80 of every address.

Over UDP at port 90 of ADDRESS it answers with who it is, in as many bytes as it got. GET /N sends N bytes, slowly where the path ends in /slow; POST says how many bytes it got.
"""

import http.server
import socket
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        size = self.path.strip("/").split("/")[0]
        if not size:
            self.answer(f"{sys.argv[1]} {self.client_address[0].removeprefix('::ffff:')}\n".encode())
        elif self.path.endswith("/slow"):
            self.send_response(200)
            self.send_header("Content-Length", size)
            self.end_headers()
            left = int(size)
            while left:
                piece = min(left, 2000)
                self.wfile.write(b"x" * piece)
                self.wfile.flush()
                left -= piece
                time.sleep(0.02)
        else:
            self.answer(b"x" * int(size))

    def do_POST(self):
        left = total = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 65536)))
        self.answer(f"{total}\n".encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


def datagrams():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((sys.argv[2], 90))
    while True:
        got, client = udp.recvfrom(65536)
        udp.sendto(f"{sys.argv[1]} {len(got)} ".encode().ljust(len(got), b"."), client)


server = Server(("::", 80), Handler)
threading.Thread(target=datagrams, daemon=True).start()
print("ready", flush=True)
server.serve_forever()
