"""Damage to the text of a log, each drawn from a seed: letters, lines, parts, and all of it at once."""

from __future__ import annotations

import random

# Output of other programs that gets between and into lines.
NOISE = (
    "ip-10-0-1-2:14:20 [0] NCCL INFO Launch mode Parallel",
    "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T18:15:02 ***",
    "# a comment",
    "...",
    "WARNING: 3 of 16 links are down",
    "\x1b[2K\r 50%|#####     | 5/10",
    "\ufffd\ufffd 17 \u0661\u0662 nan",
    "8 2 float",
)
# Titles of windows, colours, pages, marks that write from right to left, returns.
ESCAPES = (
    *("\x1b]0;a\x07", "\x1b[31m", "\x1b[2J", "\x9b2K", "\x1b", "\x00", "\u202e", "\x08\x08", "\r", "\x7f"),
)
NOT_DIGITS = "abcXYZ#[]:;-_+ \t\u00e9"


def cut_tail(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def cut_head(rng: random.Random, text: str) -> str:
    return text[rng.randrange(len(text)) :]


def insert_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(NOISE) + "\n")
    return "".join(lines)


def write_into_line(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(NOISE) + rng.choice(("", "\n")) + text[at:]


def replace_character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return (
        text if text[at].isdigit() or text[at] == "." else text[:at] + rng.choice(NOT_DIGITS) + text[at + 1 :]
    )


def spoil_digit(rng: random.Random, text: str) -> str:
    at = rng.choice([index for index, letter in enumerate(text) if letter.isdigit()])
    return text[:at] + rng.choice("abcXYZ#[]:;\u00e9") + text[at + 1 :]


def break_line(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + "\n" + text[at:]


def join_lines(rng: random.Random, text: str) -> str:
    at = rng.choice([index for index, letter in enumerate(text) if letter == "\n"])
    return text[:at] + text[at + 1 :]


def glue_output(rng: random.Random, text: str) -> str:
    """Other output behind a whole line, whose end comes after it; a progress display writes over a line."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    noise = rng.choice([words for words in NOISE if "\r" not in words])
    lines[at] = lines[at].rstrip("\n") + noise + "\n\n"
    return "".join(lines)


def eat_signs(rng: random.Random, text: str) -> str:
    """As pages that take a comment sign for a headline do."""
    return text.replace("#", "") if rng.random() < 0.5 else text.replace("# ", "")


def eat_blanks(rng: random.Random, text: str) -> str:
    """Those in front of lines, or all but one between words, in every line or in some."""
    share, part = rng.choice((1.0, 0.5)), rng.random()
    changed = [line.lstrip(" ") if part < 0.5 else " ".join(line.split()) for line in text.split("\n")]
    pairs = zip(text.split("\n"), changed, strict=True)
    return "\n".join(new if rng.random() < share else old for old, new in pairs)


def double_part(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    first, at = rng.randrange(len(lines)), rng.randrange(len(lines))
    return "".join([*lines[:at], *lines[first : first + rng.randint(1, 40)], *lines[at:]])


def mix_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    first, count = rng.randrange(len(lines)), rng.randint(2, 40)
    part = lines[first : first + count]
    rng.shuffle(part)
    return "".join([*lines[:first], *part, *lines[first + count :]])


def lose_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if rng.random() > 0.1)


def write_escapes(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(ESCAPES) + text[at:]
    return text


def two_jobs(rng: random.Random, text: str) -> str:
    """Two prefixes, whose lines take turns."""
    lines = [f"{rank}: {line}" for line in text.splitlines(keepends=True) for rank in (0, 1)]
    for at in rng.sample(range(len(lines) - 1), 10):
        if lines[at][:2] != lines[at + 1][:2]:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "".join(lines)


# Damage to many lines at once: nothing false comes of it, whatever is lost is not asked for.
WIDE = (eat_signs, eat_blanks, double_part, mix_lines, lose_lines, write_escapes, two_jobs)
# Damage inside a line: it leaves a trace, unlike a line that is missing or there twice.
INSIDE = (write_into_line, replace_character, spoil_digit, break_line, join_lines, glue_output)
MUTATIONS = (cut_tail, cut_head, insert_line, *INSIDE)
# What is said of a log that lost a row: one of these.
TOLD = {"damaged", "rows-missing", "cut", "foreign", "no-heading"}
