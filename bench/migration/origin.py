"""Web servers that answer alike, one for each server in front, and note what they are asked.

What is answered follows from method, host and target alone, so two servers in front that ask for the
same get the same.
"""

import hashlib
import http.server
import threading
import zlib

# What a path begins with, and what is said of its lifetime.
LIFETIMES = {
    "/assets/": "max-age=3600", "/v7/": "max-age=3600", "/static/": "public, max-age=86400", "/news/": "max-age=600",
    "/api/": "no-store", "/account/": "private", "/live/": "s-maxage=300, max-age=0",
}
TYPES = {"css": "text/css", "js": "text/javascript", "png": "image/png", "html": "text/html; charset=utf-8"}
# A date of all documents.
MODIFIED = "Mon, 02 Nov 2026 08:00:00 GMT"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the path: assets, news, an interface, an account with a cookie, errors."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        self.server.asked.append(f"{self.command} {self.headers.get('Host')} {self.path}")
        path = self.path.partition("?")[0]
        name = f"{self.headers.get('Host')} {self.path}"
        status = 404 if "/missing" in path else 500 if "/broken" in path else 200
        body = self.document(name, sent)
        tag = f'"{zlib.crc32(body):08x}"'
        fields = {"Content-Type": TYPES.get(path.rpartition(".")[2], "text/plain"), "X-Powered-By": "origin/1.0"}
        if status == 200:
            fields["Cache-Control"] = next((life for begin, life in LIFETIMES.items() if path.startswith(begin)), "no-cache")
            fields |= {"ETag": tag, "Last-Modified": MODIFIED}
            if path.startswith("/account/"):
                fields["Set-Cookie"] = "session=1; Path=/; HttpOnly"
            if path.startswith("/news/"):
                fields["Vary"] = "Accept-Language"
                body += (self.headers.get("Accept-Language") or "").encode()
                fields["ETag"] = f'"{zlib.crc32(body):08x}"'
        self.send_response(status)
        for field, value in fields.items():
            self.send_header(field, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def document(self, name, sent):
        """Some bytes that say what was asked for, of a length by its name."""
        line = f"{self.command if sent else 'GET'} {name} {hashlib.sha256(sent).hexdigest() if sent else ''}\n".encode()
        return line * (1 + zlib.crc32(name.encode()) % 200)

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    """Says nothing of connections that are closed under it."""

    daemon_threads = True

    def handle_error(self, *_):
        pass


class Origin:
    """One such server, on a free port of loopback."""

    def __init__(self):
        self.server = Web(("127.0.0.1", 0), Handler)
        self.asked = self.server.asked = []
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
