"""A Debian that boots: its root made once by debootstrap, each machine a copy in memory over it.

The machine is a container of systemd-nspawn with a network of its own that leads nowhere, so ports 80
and 443 are free in it. Nothing of it outlives the process but the root, in .cache/deployment.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What the machine has besides the least: a service manager, and what the page's commands use.
PACKAGES = "systemd,systemd-sysv,dbus,ca-certificates,curl,logrotate,openssl,procps"
BOOT_SECONDS_MAX = 90


def missing():
    """What has to be there and is not, in words; None where all is."""
    if os.geteuid() != 0:
        return "this needs root: it starts a container"
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if not shutil.which(program):
            return f"{program} is missing: apt-get install systemd-container debootstrap util-linux"
    return None


def give_up(why):
    """Ends: no machine can be had here."""
    print(f"deployment: {why}", file=sys.stderr)
    sys.exit(2)


def root_folder():
    """The machines' root, made where it is not there."""
    # Another list of packages is another root.
    folder = ROOT / f".cache/deployment/root-{zlib.crc32(PACKAGES.encode()):08x}"
    if not folder.is_dir():
        print("deployment: making a Debian 12 (about a minute)", file=sys.stderr)
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent))
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", fresh],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )
        if made.returncode != 0:
            shutil.rmtree(fresh)
            give_up(f"debootstrap failed:\n{made.stdout[-2000:]}")
        fresh.chmod(0o755)
        fresh.rename(folder)
    return folder


class Machine:
    """A machine that is up, as a context manager."""

    def __enter__(self):
        # The name of a machine is also its host name, and two may run at a time.
        self.nspawn = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--volatile=overlay", "--register=no",
             "--keep-unit", "--private-network", "--console=pipe", "--link-journal=no",
             f"--machine=freshet-{os.getpid()}", "-D", root_folder()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
        )
        end = time.monotonic() + BOOT_SECONDS_MAX
        state = ""
        while time.monotonic() < end and self.nspawn.poll() is None:
            self.leader = self.find_leader()
            if self.leader:
                state = self.run("systemctl is-system-running --wait", check=False).strip()
                if state in ("running", "degraded"):
                    return self
            time.sleep(0.2)
        self.__exit__()
        give_up(f"the machine did not boot: {state or 'no systemd in it'}")

    def __exit__(self, *_):
        if self.nspawn.poll() is None:
            self.nspawn.terminate()
            try:
                self.nspawn.wait(20)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()

    def find_leader(self):
        """The machine's process 1, as it is seen from here."""
        path = Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children")
        try:
            children = path.read_text(encoding="ascii").split()
            names = {pid: Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") for pid in children}
        except OSError:
            return None
        return next((pid for pid, name in names.items() if name.strip() == "systemd"), None)

    def inside(self, *spaces):
        return ["nsenter", "--target", self.leader, *(spaces or ("--all",))]

    def run(self, script, check=True, folder="/src"):
        """Runs a script of commands there, each of which has to succeed; what it printed."""
        script = f"cd {folder} 2>/dev/null || cd /\n{script}"
        done = subprocess.run(
            [*self.inside(), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
             "LANG=C.UTF-8", "SYSTEMD_PAGER=", "sh", "-eu", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=180,
        )
        if check and done.returncode != 0:
            raise Failed(f"status {done.returncode} of\n{script}\n{done.stdout}")
        self.status = done.returncode
        return done.stdout

    def write(self, path, content, mode=0o644):
        """Puts a file there: text, bytes, or the path of a file here."""
        if isinstance(content, Path):
            content = content.read_bytes()
        elif isinstance(content, str):
            content = content.encode()
        folder = os.path.dirname(path)
        script = f"mkdir -p {folder} && cat > {path} && chmod {mode:o} {path}"
        subprocess.run([*self.inside(), "sh", "-c", script], input=content, check=True)

    def beside(self, *command):
        """Starts a program of this machine's in the network of that one."""
        return subprocess.Popen([*self.inside("--net"), *command], stdout=subprocess.PIPE, text=True)


class Failed(Exception):
    """A step that did not do what it should."""


def end(process):
    """Ends a process that was started by `beside`; what it printed."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=30)[0]
