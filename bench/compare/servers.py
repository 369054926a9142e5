"""Caching servers that know how to start themselves on loopback, in front of one origin.

Each listens in the clear and under TLS on free ports, keeps its objects in memory, logs as little as
its defaults allow, and is pinned to the processors it is told. `stop` ends what was started and
removes its files.
"""
import contextlib, os, pathlib, random, resource, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.request

SIZES = {"1KB": 1 << 10, "100KB": 100 << 10, "1MB": 1 << 20, "10MB": 10 << 20}


def free_port():
    """A port that nobody has: below those the kernel gives to outgoing connections (ip(7)), one of which might have it
    before its server starts."""
    while True:
        port = random.randrange(10_000, 32_768)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def work_folder(name):
    """A new folder that servers may enter which give up root."""
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    return folder


def make_certificate(folder):
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    if not certificate.exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "30", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,DNS:www.example,DNS:static.example,DNS:old.example,IP:127.0.0.1"], check=True, capture_output=True)
        (folder / "both.pem").write_text(key.read_text() + certificate.read_text())
    return key, certificate


def family(pid):
    """A process and its descendants."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += family(int(child))
    except FileNotFoundError:
        pass
    return found


class Server:
    name = "?"
    package = None
    # Where a cache on files is, and how large it may be; as much as memory where this is None.
    cache_root, cache_mb = "/dev/shm", None
    more = ()
    # Makes of a command one that runs within limits.
    within = staticmethod(list)

    def __init__(self, folder, origin_port, workers=1, processors="0", memory_mb=4096):
        self.base = pathlib.Path(folder)
        self.folder = self.base / self.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.key, self.certificate = make_certificate(self.base)
        self.origin_port, self.workers, self.processors, self.memory_mb = origin_port, workers, processors, memory_mb
        self.clear_port, self.tls_port = free_port(), free_port()
        self.processes = []

    def spawn(self, command, ports):
        pinned = ["taskset", "-c", self.processors] if self.processors else []
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen(self.within(pinned + [str(word) for word in command]), stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL)
        self.processes.append(process)
        deadline = time.time() + 20
        for port in ports:
            while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                if process.poll() is not None or time.time() > deadline:
                    raise RuntimeError(f"{self.name} did not start; see {self.folder}/log")
                time.sleep(0.05)

    def processor_seconds(self):
        """By the clock of each process (clock_getcpuclockid(3)): /proc counts hundredths of a second, of which a few hundred
        handshakes are a handful."""
        seconds = 0
        for process in self.processes:
            for pid in family(process.pid):
                with contextlib.suppress(OSError):
                    seconds += time.clock_gettime(~pid << 3 | 2)
        return seconds

    def resident_mb(self):
        total = 0
        for process in self.processes:
            for pid in family(process.pid):
                try:
                    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                        total += int(line.split()[1]) / 1024 if line.startswith("VmRSS") else 0
                except FileNotFoundError:
                    pass
        return total

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()


# Connections of nginx, and files it keeps open: as many as are worth it, or as this machine lets it have beside connections. With
# more it has no descriptor left once there are more objects, and answers nobody.
NGINX_CONNECTIONS, NGINX_OTHERS = 12_000, 500
NGINX_DESCRIPTORS = min(100_000 + NGINX_CONNECTIONS + NGINX_OTHERS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
NGINX_FILES_OPEN = NGINX_DESCRIPTORS - NGINX_CONNECTIONS - NGINX_OTHERS
NGINX_TEMPORARY = "\n".join(f"{name}_temp_path {{folder}}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


class Origin(Server):
    """nginx with files of fixed sizes: a URL that names a size anywhere in its path gets that many bytes."""
    name, package = "origin", "nginx"

    def __init__(self, folder, processors):
        super().__init__(folder, 0, processors=processors)
        self.port = self.clear_port

    def start(self):
        root = self.folder / "root"
        root.mkdir()
        for name, count in SIZES.items():
            (root / name).write_bytes(os.urandom(count))
        configuration = self.folder / "nginx.conf"
        configuration.write_text(f"""
worker_processes 1; daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ worker_connections 8192; }}
http {{ access_log off; sendfile on; keepalive_requests 10000000; default_type application/octet-stream;
  {NGINX_TEMPORARY.format(folder=self.folder)}
  server {{ listen 127.0.0.1:{self.port} backlog=8192; root {root}; add_header Cache-Control "public, max-age=86400";
    location = /status {{ stub_status; }}
    location ~ "/(?<size>[0-9]+(KB|MB))(/|$)" {{ try_files /$size =404; }} }} }}
""")
        self.spawn(["nginx", "-c", configuration, "-p", self.folder], [self.port])

    def requests(self):
        """How many requests it had so far, without those for this figure."""
        self.asked = getattr(self, "asked", 0) + 1
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status") as response:
            return int(response.read().split()[9]) - self.asked


class Nginx(Server):
    """nginx with its cache on tmpfs, sendfile on, no access log."""
    name, package = "nginx", "nginx"
    program, has_http3 = "nginx", False

    def start(self):
        quic = f"listen 127.0.0.1:{self.tls_port} quic reuseport;" if self.has_http3 else ""
        self.cache = pathlib.Path(f"{self.cache_root}/compare-nginx-{os.getpid()}")
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir()
        configuration = self.folder / "nginx.conf"
        configuration.write_text(f"""
worker_processes {self.workers}; daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log; worker_rlimit_nofile {NGINX_DESCRIPTORS};
events {{ worker_connections {NGINX_CONNECTIONS}; multi_accept on; }}
http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 10000000; keepalive_timeout 300s;
  http2_max_requests 10000000;
  {NGINX_TEMPORARY.format(folder=self.folder)}
  open_file_cache max={NGINX_FILES_OPEN} inactive=300s; open_file_cache_valid 300s;
  proxy_cache_path {self.cache} levels=1:2 keys_zone=objects:{max(256, self.memory_mb // 16)}m max_size={self.cache_mb or self.memory_mb}m inactive=24h use_temp_path=off;
  upstream origin {{ server 127.0.0.1:{self.origin_port}; keepalive 64; }}
  ssl_certificate {self.certificate}; ssl_certificate_key {self.key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:10m;
  server {{ listen 127.0.0.1:{self.clear_port} backlog=8192; listen 127.0.0.1:{self.tls_port} ssl http2 backlog=8192; {quic}
    location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache objects;
      proxy_cache_lock on; proxy_cache_valid 200 1d; }} }} }}
""")
        self.spawn([self.program, "-c", configuration, "-p", self.folder], [self.clear_port, self.tls_port])

    def stop(self):
        super().stop()
        shutil.rmtree(getattr(self, "cache", ""), ignore_errors=True)


class NginxNew(Nginx):
    """nginx with its module for HTTP/3, as built from source."""
    program, variable = os.environ.get("NGINX_NEW", ""), "NGINX_NEW"
    has_http3 = True


class OfFiles(Server):
    """A server with the same bytes in files in memory, as it keeps no answers of an origin: what it costs is less than a cache's."""
    objects_max = {"1KB": 1001, "100KB": 1001, "1MB": 201}

    def write_objects(self):
        self.root = pathlib.Path(f"{self.cache_root}/compare-{self.name}-{os.getpid()}")
        shutil.rmtree(self.root, ignore_errors=True)
        for size, count in self.objects_max.items():
            (self.root / size).mkdir(parents=True)
            for number in range(count + 1):
                (self.root / size / f"object-{number}").write_bytes(os.urandom(SIZES[size]))

    def stop(self):
        super().stop()
        shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)


class H2o(OfFiles):
    """h2o, as built from source."""
    name, package = "h2o", "h2o"
    program, variable = os.environ.get("H2O", ""), "H2O"

    def start(self):
        self.write_objects()
        tls = f"port: {self.tls_port}, host: 127.0.0.1, ssl: {{ certificate-file: {self.certificate}, key-file: {self.key}, ocsp-update-interval: 0 }}"
        configuration = self.folder / "h2o.conf"
        configuration.write_text(f"""
user: root
pid-file: {self.folder}/pid
num-threads: {self.workers}
max-connections: 12000
file.etag: off
http3-idle-timeout: 60
listen: {{ port: {self.clear_port}, host: 127.0.0.1 }}
listen: {{ {tls} }}
listen: {{ type: quic, {tls} }}
hosts:
  default:
    paths:
      "/":
        file.dir: {self.root}
""")
        self.spawn([self.program, "-c", configuration], [self.clear_port, self.tls_port])


class QuinnH3(OfFiles):
    """quinn under hyperium/h3: the server among h3's examples, which speaks nothing but HTTP/3."""
    name, package = "quinn-h3", None
    program, variable = os.environ.get("QUINN_H3", ""), "QUINN_H3"

    def start(self):
        self.write_objects()
        key, certificate = self.folder / "key.der", self.folder / "certificate.der"
        for command in (["pkcs8", "-topk8", "-nocrypt", "-in", self.key, "-outform", "DER", "-out", key],
                        ["x509", "-in", self.certificate, "-outform", "DER", "-out", certificate]):
            subprocess.run(["openssl", *command], check=True, capture_output=True)
        self.spawn(["env", f"TOKIO_WORKER_THREADS={self.workers}", "RUST_LOG=off", self.program, "--dir", self.root,
                    "--listen", f"127.0.0.1:{self.tls_port}", "--cert", certificate, "--key", key], [])
        bound = f"0100007F:{self.tls_port:04X}"
        deadline = time.time() + 20
        while bound not in pathlib.Path("/proc/net/udp").read_text():
            if self.processes[-1].poll() is not None or time.time() > deadline:
                raise RuntimeError(f"{self.name} did not start; see {self.folder}/log")
            time.sleep(0.05)


def without_missing(names):
    """These servers but for those built from source that are not there, which it says."""
    missing = [server for server in (NginxNew, H2o, QuinnH3) if not server.program and server.name in names]
    for server in missing:
        print(f"{server.name} is left out: ${server.variable} is not set", file=sys.stderr)
    return [name for name in names if name not in (server.name for server in missing)]


class Varnish(Server):
    """Varnish with malloc storage, and hitch in front of it for TLS over a Unix socket."""
    name, package = "varnish", "varnish hitch"

    def start(self):
        policy, door = self.folder / "policy.vcl", self.folder / "door.sock"
        policy.write_text(f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{self.origin_port}"; }}\n')
        self.spawn(["varnishd", "-F", "-n", self.folder / "instance", "-a", f"127.0.0.1:{self.clear_port}", "-a", f"{door},PROXY,mode=666",
                    "-f", policy, "-s", f"malloc,{self.memory_mb}m", "-p", "thread_pool_min=200", "-p", "thread_pool_max=5000",
                    "-p", "feature=+http2", "-j", "none"], [self.clear_port])
        configuration = self.folder / "hitch.conf"
        configuration.write_text(f'frontend = "[127.0.0.1]:{self.tls_port}"\nbackend = "{door}"\npem-file = "{self.base}/both.pem"\n'
                                 f'workers = {self.workers}\nwrite-proxy-v2 = on\ntls-protos = TLSv1.2 TLSv1.3\nalpn-protos = "h2,http/1.1"\n'
                                 f'backlog = 4096\ndaemon = off\nuser = "_hitch"\n')
        self.spawn(["hitch", f"--config={configuration}"], [self.tls_port])


class TrafficServer(Server):
    """Traffic Server with a memory cache of the given size over a cache on tmpfs, logging off."""
    name, package = "ats", "trafficserver"

    def start(self):
        folder = self.folder
        self.cache = pathlib.Path(f"{self.cache_root}/compare-ats-{os.getpid()}")
        for made in (folder / "run", folder / "logs", self.cache):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
        shutil.copytree("/etc/trafficserver", folder / "etc")
        etc = folder / "etc"
        (etc / "storage.config").write_text(f"{self.cache} {self.cache_mb or self.memory_mb}M\n")
        (etc / "remap.config").write_text(f"map / http://127.0.0.1:{self.origin_port}/\n")
        (etc / "ssl_multicert.config").write_text("dest_ip=* ssl_cert_name=certificate.pem ssl_key_name=key.pem\n")
        shutil.copy(self.certificate, etc)
        shutil.copy(self.key, etc)
        wanted = {"http.server_ports": f"STRING {self.clear_port} {self.tls_port}:ssl", "ssl.server.cert.path": f"STRING {etc}",
                  "ssl.server.private_key.path": f"STRING {etc}", "exec_thread.autoconfig": "INT 0",
                  "exec_thread.limit": f"INT {self.workers}", "cache.ram_cache.size": f"INT {self.memory_mb}M",
                  "cache.ram_cache_cutoff": "INT 134217728", "log.logging_enabled": "INT 0", "admin.user_id": "STRING #-1",
                  "net.connections_throttle": "INT 30000", "http.keep_alive_no_activity_timeout_in": "INT 300",
                  "http.cache.required_headers": "INT 0"}
        records = [line for line in (etc / "records.config").read_text().splitlines()
                   if not any(f"proxy.config.{name}" in line for name in wanted)]
        records += [f"CONFIG proxy.config.{name} {value}" for name, value in wanted.items()]
        (etc / "records.config").write_text("\n".join(records) + "\n")
        (folder / "root.yaml").write_text(
            f"prefix: {folder}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: {etc}\ndatadir: {folder}/cache\n"
            f"includedir: /usr/include\nlibdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n"
            f"localstatedir: {folder}\nruntimedir: {folder}/run\nlogdir: {folder}/logs\ncachedir: {folder}/cache\n")
        subprocess.run(["chmod", "-R", "a+rwX", folder, self.cache], check=True)
        self.spawn(["traffic_server", f"--run-root={folder}/root.yaml"], [self.clear_port, self.tls_port])
        # It listens before its cache is open and answers without caching until then.
        log, deadline = folder / "logs" / "diags.log", time.time() + 20
        while "cache enabled" not in (log.read_text() if log.exists() else "") and time.time() < deadline:
            time.sleep(0.1)

    def stop(self):
        super().stop()
        shutil.rmtree(getattr(self, "cache", ""), ignore_errors=True)


def freshet_program():
    program = os.environ.get("FRESHET") or pathlib.Path(__file__).resolve().parents[2] / "target/release/freshet"
    if not pathlib.Path(program).exists():
        raise SystemExit(f"{program} is missing: run cargo build --release -p freshet-cli, or set FRESHET")
    return program


class Freshet(Server):
    name = "freshet"

    def start(self):
        self.spawn([freshet_program(), "serve", "--origin", f"http://127.0.0.1:{self.origin_port}", "--listen", f"127.0.0.1:{self.clear_port}",
                    "--listen-tls", f"127.0.0.1:{self.tls_port}", "--cert", self.certificate, "--key", self.key,
                    "--memory", f"{self.memory_mb}MB", "--workers", str(self.workers),
                    *self.more], [self.clear_port, self.tls_port])


SERVERS = {server.name: server for server in (Freshet, Nginx, Varnish, TrafficServer)}
