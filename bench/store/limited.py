"""A control group with a limit on memory, page cache included, for what is started in it."""
import os, pathlib

ROOT = pathlib.Path("/sys/fs/cgroup")


class Limited:
    """A group of processes that may have `limit_bytes` together. Needs to be root."""

    def __init__(self, name, limit_bytes):
        if (ROOT / "cgroup.controllers").exists():
            if "memory" not in (ROOT / "cgroup.subtree_control").read_text():
                (ROOT / "cgroup.subtree_control").write_text("+memory")
            self.folder, limit = ROOT / name, "memory.max"
        elif (ROOT / "memory").exists():
            self.folder, limit = ROOT / "memory" / name, "memory.limit_in_bytes"
        else:
            raise SystemExit("there is no memory controller under /sys/fs/cgroup")
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / limit).write_text(str(limit_bytes))
        except OSError as error:
            raise SystemExit(f"a control group cannot be made, which takes root: {error}")
        self.version = 2 if limit == "memory.max" else 1

    def command(self, words):
        """The command that runs `words` in the group."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *words]

    def peak_mb(self):
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            if (self.folder / name).exists():
                return int((self.folder / name).read_text()) / 1e6
        return 0.0

    def close(self):
        try:
            self.folder.rmdir()
        except OSError:
            pass
