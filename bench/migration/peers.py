"""The servers of the pages, run with the files of the pages: paths and ports are other ones, all else is as it stands."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "compare"))
from servers import Server, TrafficServer, freshet_program  # noqa: E402


POLICY = "/etc/varnish/default.vcl"


def replaced(text, replacements):
    """A text with other words in it, each of which has to be there."""
    for word, other in replacements.items():
        if word not in text:
            raise SystemExit(f"migration: the page's file does not have {word!r} any more:\n{text}")
        text = text.replace(word, str(other))
    return text


class Peer(Server):
    """A server with files of a page: `files` are by their names there."""

    def __init__(self, folder, origin_port, files):
        super().__init__(folder, origin_port, processors=None)
        self.files = files

    def origin_line(self):
        return f"127.0.0.1:{self.origin_port}"


class Freshet(Peer):
    name = "freshet"

    def start(self):
        text = self.files["/etc/freshet/freshet.toml"]
        places = {
            '":80"': f'"127.0.0.1:{self.clear_port}"', '":443"': f'"127.0.0.1:{self.tls_port}"', "127.0.0.1:8080": self.origin_line(),
            "/etc/freshet/tls/cert.pem": self.certificate, "/etc/freshet/tls/key.pem": self.key,
            "/var/cache/freshet": self.folder, "/var/log/freshet": self.folder, POLICY: self.folder / "default.vcl",
        }
        if POLICY in self.files:
            policy = replaced(self.files[POLICY], {'"8080"': f'"{self.origin_port}"'})
            (self.folder / "default.vcl").write_text(policy, encoding="utf-8")
        file = self.folder / "freshet.toml"
        there = {word: other for word, other in places.items() if word in text}
        file.write_text(replaced(text, there) + '\n[admin]\nlisten = "off"\n', encoding="utf-8")
        checked = subprocess.run([freshet_program(), "check", file], capture_output=True, text=True, check=False)
        if checked.returncode != 0 or "warning" in checked.stderr:
            raise SystemExit(f"migration: freshet check says\n{checked.stdout}{checked.stderr}")
        runtime = self.folder / "run"
        runtime.mkdir(mode=0o700)
        self.spawn(["env", f"RUNTIME_DIRECTORY={runtime}", freshet_program(), "serve", "--config", file],
                   [self.clear_port, self.tls_port][:text.count("[[listen]]")])


class Nginx(Peer):
    """nginx with Debian's nginx.conf, and the page's file as its only site."""

    name = program = "nginx"
    hosts, has_tls = ["www.example"], True

    def start(self):
        site = replaced(self.files["/etc/nginx/conf.d/site.conf"], {
            "listen 80;": f"listen 127.0.0.1:{self.clear_port};", "listen 443 ssl http2;": f"listen 127.0.0.1:{self.tls_port} ssl http2;",
            "127.0.0.1:8080": self.origin_line(), "/etc/nginx/tls/cert.pem": self.certificate, "/etc/nginx/tls/key.pem": self.key,
            "/var/cache/nginx": self.folder / "cache",
        })
        (self.folder / "site.conf").write_text(site, encoding="utf-8")
        whole = replaced(pathlib.Path("/etc/nginx/nginx.conf").read_text(encoding="utf-8"), {
            "user www-data;": "user root;", "/run/nginx.pid": self.folder / "pid", "/var/log/nginx": self.folder,
            "include /etc/nginx/sites-enabled/*;": "", "include /etc/nginx/modules-enabled/*.conf;": "",
            "/etc/nginx/conf.d/*.conf": self.folder / "site.conf",
        })
        places = "".join(f"{name}_temp_path {self.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        whole = whole.replace("http {", "http {\n" + places, 1)
        (self.folder / "nginx.conf").write_text(whole, encoding="utf-8")
        self.spawn(["nginx", "-c", self.folder / "nginx.conf", "-p", self.folder, "-g", "daemon off;"], [self.clear_port, self.tls_port])


class Varnish(Peer):
    """varnishd with the page's policy and the arguments of the page's unit."""

    name, program = "varnish", "varnishd"
    hosts, has_tls = ["www.example", "static.example"], False

    def start(self):
        policy = replaced(self.files[POLICY], {'"8080"': f'"{self.origin_port}"'})
        (self.folder / "default.vcl").write_text(policy, encoding="utf-8")
        unit = self.files["/etc/systemd/system/varnish.service.d/override.conf"].replace("\\\n", " ")
        line = replaced(re.findall(r"^ExecStart=(/.*)$", unit, re.MULTILINE)[0], {
            "-a :80": f"-a 127.0.0.1:{self.clear_port}", POLICY: self.folder / "default.vcl",
            "-j unix,user=vcache": "-j none", "-S /etc/varnish/secret": "", "-T localhost:6082": "",
        })
        self.spawn([*shlex.split(line), "-n", self.folder / "instance"], [self.clear_port])


class Traffic(Peer, TrafficServer):
    """Traffic Server with Debian's configuration and what the page writes into it."""

    name, program = "trafficserver", "traffic_server"
    hosts, has_tls = ["www.example", "static.example", "old.example"], True

    def start(self):
        folder, etc = self.folder, self.folder / "etc"
        for made in ("run", "logs", "cache"):
            (folder / made).mkdir()
        shutil.copytree("/etc/trafficserver", etc)
        remap = replaced(self.files["/etc/trafficserver/remap.config"], {"127.0.0.1:8080": self.origin_line()})
        (etc / "remap.config").write_text(remap, encoding="utf-8")
        (etc / "storage.config").write_text(replaced(self.files["/etc/trafficserver/storage.config"],
                                                     {"/var/cache/trafficserver": folder / "cache"}), encoding="utf-8")
        (etc / "ssl_multicert.config").write_text(self.files["/etc/trafficserver/ssl_multicert.config"], encoding="utf-8")
        for name, file in (("cert.pem", self.certificate), ("key.pem", self.key)):
            shutil.copy(file, etc / name)
        records = replaced(self.files["/etc/trafficserver/records.config"], {
            "STRING 80 80:ipv6 443:ssl 443:ssl:ipv6": f"STRING {self.clear_port} {self.tls_port}:ssl", "/etc/trafficserver": etc,
        }) + "CONFIG proxy.config.admin.user_id STRING #-1\n"
        said = set(re.findall(r"proxy\.config\.[\w.]+", records))
        kept = [line for line in (etc / "records.config").read_text(encoding="utf-8").splitlines() if not said & set(line.split())]
        (etc / "records.config").write_text("\n".join(kept) + "\n" + records, encoding="utf-8")
        (folder / "root.yaml").write_text(
            f"prefix: {folder}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: {etc}\ndatadir: {folder}/cache\n"
            f"includedir: /usr/include\nlibdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n"
            f"localstatedir: {folder}\nruntimedir: {folder}/run\nlogdir: {folder}/logs\ncachedir: {folder}/cache\n", encoding="utf-8")
        subprocess.run(["chmod", "-R", "a+rwX", folder], check=True)
        self.spawn(["traffic_server", f"--run-root={folder}/root.yaml"], [self.clear_port, self.tls_port])
        # It listens before its cache is open and answers without caching until then.
        log, deadline = folder / "logs/diags.log", time.monotonic() + 30
        while "cache enabled" not in (log.read_text(encoding="utf-8") if log.exists() else ""):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} opened no cache; see {log}")
            time.sleep(0.1)


PAGES = {
    "nginx": ("docs/from-nginx.md", Nginx),
    "varnish": ("docs/from-varnish.md", Varnish),
    "trafficserver": ("docs/from-traffic-server.md", Traffic),
}
