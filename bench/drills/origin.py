#!/usr/bin/env python3
"""An origin for drills: every path is 4 KiB, fresh for a minute, or for a second under /brief.

Prints the port it listens on, then serves until it is ended.
"""

import http.server

BODY = b"x" * 4096


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        seconds = 1 if self.path.startswith("/brief") else 60
        self.send_response(200)
        self.send_header("Cache-Control", f"max-age={seconds}")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
