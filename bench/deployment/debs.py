"""Packages of a program, to be installed in a machine."""

import shutil
import subprocess

from machine import ROOT


def missing():
    """What has to be there to make packages and is not, in words; None where all is."""
    if not shutil.which("dpkg-shlibdeps"):
        return "dpkg-shlibdeps is missing: apt-get install dpkg-dev"
    return None if shutil.which("cargo") else "cargo is missing, which knows the crates that packages list"


def build(what, program, folder, version, *arguments):
    """Has packaging/build make packages of a program; the files, by name."""
    subprocess.run(
        [ROOT / "packaging/build", what, "--compression", "gzip", "--version", version, *arguments,
         "--freshet", program, "--lab", program, "--varnishd", program, "--out", folder],
        check=True, stdout=subprocess.DEVNULL,
    )
    return {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}
