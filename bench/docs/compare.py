"""Whether a command has shown what a page says it shows.

Text and bare numbers have to be the same, lengths of white space and measured values need not: times,
sizes and shares with their units, dates, times of day, lifetimes that are left. `…` on the page stands
for anything in a line, a line of nothing else for any lines.
"""

import re

NUMBER = r"-?\d[\d.,]*"
# What may differ, and what has to stand in its place. The first that fits counts.
VARIES = [
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", None),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z", None),
    (r"\b\d\d:\d\d:\d\d\b", None),
    (r"\bworkers \d+|\b\d+ workers\b|\bprocess \d+|\"(?:took_us|time_ms)\":\d+", None),
    (r"\b(?:ttl|age|t)=\d+|\bRetry-After: \d+", None),
    (rf"{NUMBER} ?(?:ns|µs|ms|s|min|h|d)\b", None),
    (rf"{NUMBER} ?(?:[KMGT]i?)?B\b(?!/)", None),
    (rf"{NUMBER} ?%", None),
    (r"\d+ decisions a second", None),
    (r"…", r".*"),
    (r"\s+", r"\s+"),
]
TOKEN = re.compile("|".join(f"(?P<v{index}>{pattern})" for index, (pattern, _) in enumerate(VARIES)))


def pattern_of(line):
    """The expression that fits what may stand for a line of a page."""
    parts, at = [], 0
    line = line.strip()
    for token in TOKEN.finditer(line):
        kind = int(token.lastgroup[1:])
        parts += [re.escape(line[at:token.start()]), f"(?:{VARIES[kind][1] or VARIES[kind][0]})"]
        at = token.end()
    return re.compile("".join(parts) + re.escape(line[at:]))


def fits(shown, said):
    """Whether the lines of the page fit those that were said."""
    if not shown:
        return not said
    if shown[0].strip() == "…":
        return any(fits(shown[1:], said[index:]) for index in range(len(said) + 1))
    return bool(said) and bool(pattern_of(shown[0]).fullmatch(said[0].strip())) and fits(shown[1:], said[1:])


def difference(shown, said):
    """None where a command has said what a page shows of it, else both in words."""
    def lines(text):
        return [line for line in text.splitlines() if line.strip()]

    if fits(lines(shown), lines(said)):
        return None
    return f"the page shows\n{shown.rstrip()}\nand it says\n{said.rstrip()}"
