"""The commands and files of a page of the documentation, so that what is tried is what it says.

Blocks without a language are commands. In one that begins with `$ `, each line with `$ ` is a command,
with the lines behind a `\\` that ends it, and the others are what it shows. Blocks with a language are
files; one behind "Write `PATH`:" is the file of that name, one behind "Add to `PATH`:" is added to it.
"""

import re
from dataclasses import dataclass

# A node counts and logs a moment after it has answered: what only looks is asked again for so long until it
# shows that.
LOOKS = ("freshet log", "freshet stat", "freshet explain")
LOOK_SECONDS_MAX = 15

FILE = re.compile(r"(Write|Add to) `(/?[^`]+)`:$")


@dataclass
class Command:
    """A command, what the page shows of it (None where it shows nothing of any), and its line."""

    text: str
    shown: str | None
    line: int

    def is_look(self):
        """Whether it changes nothing, and may be asked again."""
        return self.text.startswith(LOOKS)


@dataclass
class File:
    """A file the page gives, and whether it is added to the one that is there."""

    path: str
    text: str
    is_added: bool
    line: int


@dataclass
class Block:
    """A block: its language, its text, the line of its first line, and the prose before it."""

    language: str
    text: str
    line: int
    before: str

    def commands(self):
        """Its commands one by one, with what is shown of each."""
        if not self.text.startswith("$ "):
            return [Command(self.text, None, self.line)]
        found = []
        goes_on = False
        for number, line in enumerate(self.text.splitlines(), self.line):
            if goes_on:
                found[-1].text += "\n" + line
            elif line.startswith("$ "):
                found.append(Command(line[2:], "", number))
            else:
                found[-1].shown += line + "\n"
            goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
        return found


class Page:
    """A page in Markdown: under each heading, its blocks in order."""

    def __init__(self, path):
        self.path = path
        self.blocks = {}
        heading = before = None
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for number, line in lines:
            if line.startswith("#"):
                heading = line.lstrip("# ")
            elif line.startswith("```"):
                inside = []
                for _, inner in lines:
                    if inner.startswith("```"):
                        break
                    inside.append(inner)
                block = Block(line[3:], "\n".join(inside) + "\n", number + 1, before or "")
                self.blocks.setdefault(heading, []).append(block)
            if line.strip():
                before = line

    def commands(self, heading, index=0):
        """A block of commands: one that is marked as no language."""
        return [block.text for block in self.blocks[heading] if not block.language][index]

    def file(self, heading, index=0):
        """A block that is a file: one that is marked as a language."""
        return [block.text for block in self.blocks[heading] if block.language][index]

    def steps(self, heading):
        """All under a heading, in order: commands, and the files that have a name."""
        found = []
        for block in self.blocks.get(heading, []):
            named = FILE.search(block.before)
            if named:
                found.append(File(named[2], block.text, named[1] == "Add to", block.line))
            elif not block.language:
                found += block.commands()
        return found
