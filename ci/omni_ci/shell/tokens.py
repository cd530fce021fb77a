"""The pieces a shell script is made of: words and operators."""

from __future__ import annotations

import re
from dataclasses import dataclass

HERE_DOCUMENTS = frozenset(["<<", "<<-"])
REDIRECTIONS = HERE_DOCUMENTS | {"<", ">", ">>", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>"}
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=", re.ASCII)
TOO_DEEP = "deep in each other"  # the end of a problem that is ours, not the script's


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word as a program would get it, variables still as written, or an operator.

    plain: how many leading characters of the word were written without quotes; scripts: what `$( )`, backticks and
    `<( )` in it run; body: the text of a here-document, at its delimiter.
    """

    text: str
    line: int
    is_word: bool = False
    plain: int = 0
    scripts: tuple[tuple[Token, ...], ...] = ()
    body: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the word was written without any quote, as a keyword has to be."""
        return self.is_word and self.plain == len(self.text)
