"""The kind of processor that packages are for: this machine's, or another one's by Debian's cross tools."""

import os
import re
import subprocess

# Debian's names, which containers use too, and the kernel's.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class Architecture:
    """What differs from one kind of processor to the other while packages are made."""

    def __init__(self, name):
        self.name, self.machine = name, MACHINES[name]
        self.is_own = self.machine == os.uname().machine
        self.root = "" if self.is_own else f"/usr/{self.machine}-linux-gnu"

    @classmethod
    def own(cls):
        """This machine's."""
        return cls(next(name for name, machine in MACHINES.items() if machine == os.uname().machine))

    def tool(self, name):
        """The name of one of binutils' programs."""
        return name if self.is_own else f"{self.machine}-linux-gnu-{name}"

    def run(self, program, *arguments):
        """Runs a program that was built for it; what it says. A foreign one runs under emulation."""
        return subprocess.run([*self.runner(), program, *arguments], check=True, capture_output=True).stdout

    def runner(self):
        """What programs that were built for it are started by."""
        return [] if self.is_own else [f"qemu-{self.machine}", "-L", self.root]

    def is_static(self, program):
        """Whether a program needs no loader."""
        shown = subprocess.run([self.tool("readelf"), "--program-headers", program], check=True, capture_output=True, text=True).stdout
        return " INTERP " not in shown

    def libraries(self, program):
        """The shared libraries of a program, its loader among them, as paths it looks for. It has to have a loader."""
        # What `ldd` does: the loader tells, and runs nothing.
        trace = "LD_TRACE_LOADED_OBJECTS=1"
        start = ["env", trace] if self.is_own else [*self.runner(), "-E", trace]
        shown = subprocess.run([*start, program], check=True, capture_output=True, text=True).stdout
        return sorted(set(re.findall(r"(/\S+) \(0x", shown)))

    def target(self, library="gnu"):
        """Rust's name for it."""
        return f"{self.machine}-unknown-linux-{library}"
