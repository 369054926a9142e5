"""Packages of a program, to be installed in a machine."""

import os
import pathlib
import shutil
import subprocess
import sys

from machine import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
from architecture import Architecture  # noqa: E402


def program(named, architecture=None):
    """The program that packages are made of, unless one was named."""
    kind = (architecture or Architecture.own()).name
    return pathlib.Path(named or os.environ.get("FRESHET") or ROOT / "target/packages/programs" / kind / "freshet")


def missing():
    """What has to be there to make packages and is not, in words; None where all is."""
    if not shutil.which("dpkg-shlibdeps"):
        return "dpkg-shlibdeps is missing: apt-get install dpkg-dev"
    return None if shutil.which("cargo") else "cargo is missing, which knows the crates that packages list"


def build(what, program, folder, version, *arguments):
    """Has packaging/build make packages of a program; the files, by name."""
    subprocess.run(
        [ROOT / "packaging/build", what, "--compression", "gzip", "--version", version, *arguments,
         "--freshet", program, "--static", program, "--lab", program, "--varnishd", program, "--out", folder],
        check=True, stdout=subprocess.DEVNULL,
    )
    return {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}
