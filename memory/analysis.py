"""An entry's words as judging needs them, in a form that is kept beside its row: made once when it is written, not for every question.

What is kept says which text and which rules it was made of. Made of another text (a release that knew nothing of this reworded
the entry) or by other rules, it counts for nothing and is made anew. It holds the entry's own words: where the entry is erased, so
is this.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from memory.terms import terms

RULES: Final = 1
"""Of memory/terms.py: goes up whenever a text's terms change. Golden terms in the tests hold it."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """`terms` of the content in order, repeats included; `subject` those of the attribute that it sets ("home", "favourite:player")."""

    terms: tuple[str, ...]
    subject: tuple[str, ...] = ()


def analysed(content: str, subject: str | None) -> Analysis:
    attribute = (subject or "").replace(":", " ").replace("_", " ")
    return Analysis(tuple(terms(content)), tuple(terms(attribute)) if attribute else ())


def kept(content: str, subject: str | None) -> str:
    """The analysis as one line: what it was made of, the terms of the content, and behind a tab those of the subject."""
    made = analysed(content, subject)
    return f"{_origin(content, subject)} {' '.join(made.terms)}\t{' '.join(made.subject)}"


def read(line: str | None, content: str, subject: str | None) -> Analysis:
    """From what `kept` made. None, or made of another text or by other rules: analysed now."""
    if line is None or not is_of(line, content, subject):
        return analysed(content, subject)
    of_content, _, of_subject = line.partition("\t")
    return Analysis(tuple(of_content.split()[1:]), tuple(of_subject.split()))


def is_of(line: str | None, content: str, subject: str | None) -> bool:
    """Whether `kept` made the line of this text, by the rules of today."""
    return line is not None and line.startswith(f"{_origin(content, subject)} ")


def _origin(content: str, subject: str | None) -> str:
    text = f"{content}\x1f{subject or ''}".encode("utf-8", "surrogatepass")
    return f"{RULES}:{hashlib.blake2b(text, digest_size=8).hexdigest()}"
