"""What packages are made of: programs without their symbols, pages, completions, units."""

import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile

import sbom

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = ROOT / "packaging"


def say(path):
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB", flush=True)


class Tree:
    """The parts, in a scratch folder."""

    def __init__(self, scratch, arguments, version, epoch):
        self.scratch, self.out, self.version, self.epoch = scratch, arguments.out, version, epoch
        self.architecture = arguments.architecture
        self.programs = {}
        self.features = ["--features", arguments.features] if arguments.features else []
        for name, source in arguments.programs.items():
            program = scratch / "programs" / name
            program.parent.mkdir(exist_ok=True)
            strip = [self.architecture.tool("strip"), "--strip-unneeded", "-R", ".comment", "-R", ".note", "-o", program, source]
            subprocess.run(strip, check=True)
            program.chmod(0o755)
            self.programs[name] = program

    def folder(self, name):
        """A new folder for what is to be packed."""
        folder = self.scratch / name
        folder.mkdir(parents=True)
        return folder

    def pages(self, name):
        """The man pages of a program, in a folder."""
        folder = self.scratch / "pages" / name
        if not folder.is_dir():
            self.architecture.run(self.programs[name], "man", folder)
        return sorted(folder.iterdir())

    def completion(self, name, shell):
        """What a shell needs to complete its arguments."""
        return self.architecture.run(self.programs[name], "completions", shell)

    def install(self, folder, path, content, mode=0o644):
        """Puts a file into a folder that is to be packed."""
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pathlib.Path):
            shutil.copyfile(content, target)
        else:
            target.write_bytes(content)
        target.chmod(mode)

    def bom(self, name, libraries=()):
        """What a program is made of, as a document."""
        more = self.features if name == "freshet-lab" else []
        target = self.architecture.target("musl" if self.architecture.is_static(self.programs[name]) else "gnu")
        program = self.programs[name]
        return sbom.document(name.removesuffix("-static"), program, self.version, self.epoch, target, libraries, more)

    def install_program(self, folder, name):
        """A program with its pages and completions, where systems look for them."""
        self.install(folder, f"usr/bin/{name}", self.programs[name], 0o755)
        for page in self.pages(name):
            # Where the program for production has the lab as well, pages of that have the names of the other package's.
            if name == "freshet" and page.name.startswith("freshet-lab"):
                continue
            section = page.suffix[1:]
            # The page of the configuration is the program's for production.
            if section == "1" or name == "freshet":
                self.install(folder, f"usr/share/man/man{section}/{page.name}.gz", packed(page.read_bytes()))
        self.install(folder, f"usr/share/bash-completion/completions/{name}", self.completion(name, "bash"))
        self.install(folder, f"usr/share/zsh/vendor-completions/_{name}", self.completion(name, "zsh"))
        self.install(folder, f"usr/share/fish/vendor_completions.d/{name}.fish", self.completion(name, "fish"))

    def settle(self, folder):
        """Gives all the same time and the usual modes."""
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (self.epoch, self.epoch), follow_symlinks=False)

    def tar(self, folder, prefix="", owners=None):
        """An archive of a folder, the same bytes each time. What is root's is not in `owners`."""
        target = self.scratch / "archive.tar"
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(folder.rglob("*")):
                info = archive.gettarinfo(path, prefix + str(path.relative_to(folder)))
                info.uid = info.gid = (owners or {}).get(str(path.relative_to(folder)), 0)
                info.uname = info.gname = ""
                info.mtime = self.epoch
                if info.isreg():
                    with path.open("rb") as content:
                        archive.addfile(info, content)
                else:
                    archive.addfile(info)
        return target.read_bytes()

    def archive(self):
        """One archive of the program for any Linux and what belongs to it, and its checksum beside it."""
        name = f"freshet-{self.version}-linux-{self.architecture.machine}"
        folder = self.folder("archive")
        self.install(folder, "bin/freshet", self.programs["freshet-static"], 0o755)
        for page in self.pages("freshet"):
            self.install(folder, f"share/man/man{page.suffix[1:]}/{page.name}", page)
        for shell in ("bash", "zsh", "fish"):
            self.install(folder, f"share/completions/freshet.{shell}", self.completion("freshet", shell))
        for part in ("freshet.service", "freshet.socket", "freshet.sysusers", "freshet.tmpfiles", "freshet.toml", "welcome.vcl"):
            self.install(folder, f"share/freshet/{part}", HERE / part)
        self.install(folder, "share/freshet/freshet.cdx.json", self.bom("freshet-static"))
        self.install(folder, "LICENSE", ROOT / "LICENSE")
        self.settle(folder)
        target = self.out / f"{name}.tar.gz"
        target.write_bytes(packed(self.tar(folder, f"{name}/")))
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        target.with_name(target.name + ".sha256").write_text(f"{digest}  {target.name}\n", encoding="ascii")
        return target


def packed(content):
    """The bytes under gzip, without a time or a name in them."""
    return gzip.compress(content, 9, mtime=0)
