"""The commands and files of a page of the documentation, so that what is tried is what it says."""


class Page:
    """A page in Markdown: under each heading, its blocks in order."""

    def __init__(self, path):
        self.blocks = {}
        heading = None
        lines = iter(path.read_text(encoding="utf-8").splitlines())
        for line in lines:
            if line.startswith("#"):
                heading = line.lstrip("# ")
            elif line.startswith("```"):
                block = []
                for inner in lines:
                    if inner.startswith("```"):
                        break
                    block.append(inner)
                self.blocks.setdefault(heading, []).append((line[3:], "\n".join(block) + "\n"))

    def commands(self, heading, index=0):
        """A block of commands: one that is marked as no language."""
        found = [text for language, text in self.blocks[heading] if not language]
        return found[index]

    def file(self, heading, index=0):
        """A block that is a file: one that is marked as a language."""
        found = [text for language, text in self.blocks[heading] if language]
        return found[index]
