"""The origin of the pages' examples, on port 8080: what may be kept for a minute, and /nostore.html, which may not."""

import http.server

BODIES = {"/": b"home\n\n", "/news.txt": b"news\n", "/app.js": b"let a = 1;\n" * 200, "/a.bin": b"a" * 1000, "/tagged.bin": b"t" * 300_000, "/nostore.html": b"x\n"}


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        body = BODIES.get(path, b"")
        self.send_response(200 if path in BODIES else 404)
        self.send_header("Cache-Control", "no-store" if path == "/nostore.html" else "max-age=60")
        if path == "/tagged.bin":
            self.send_header("Surrogate-Key", "news")
        if path == "/app.js":
            self.send_header("Content-Type", "text/javascript")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Origin)
print("ready", flush=True)
server.serve_forever()
