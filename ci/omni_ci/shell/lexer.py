"""A shell script as words and operators, each with its line: what the standard library's shlex forgets.

shlex does not say which words were quoted (a quoted `;` or `#` would end a command), on which line they stand, and
takes the quote inside of `"$(echo "a")"` for the end of the outer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from omni_ci.shell.tokens import ASSIGNMENT, HERE_DOCUMENTS, REDIRECTIONS, TOO_DEEP, Token

_OPERATOR = re.compile(r"&>>|<<<|<<-|;;&|&&|\|\||;;|;&|\|&|&>|>>|<<|<&|>&|<>|>\||[;&|<>()\n]")
_OPENS_A_WORD = ("<(", ">(")
_ENDS_A_WORD = frozenset(" \t\r\n;&|<>()")
_PLAIN = re.compile(r"[^ \t\r\n;&|<>()'\"\\$`]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-])", re.ASCII)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_FILE_NUMBER = re.compile(r"[0-9]{1,3}")
_ANSI_C = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "e": "\x1b"}
_DEEPEST = 40
_LONGEST_ARITHMETIC = 300


def tokenized(script: str, *, line: int = 1) -> tuple[tuple[Token, ...], str | None]:
    """Return the tokens of *script*, whose first line is *line*, and why they may be wrong; None: they are exact."""
    reader = _Reader(script, line)
    try:
        return tuple(reader.tokens()), reader.problem
    except RecursionError:
        words = tuple(Token(text=word, line=line, is_word=True) for word in script.split())
        return words, f"quotes stand too {TOO_DEEP}"


@dataclass(slots=True)
class _Word:
    text: str = ""
    plain: int = 0
    is_quoted: bool = False
    scripts: list[tuple[Token, ...]] = field(default_factory=list)

    def add(self, text: str, *, quoted: bool) -> None:
        self.text += text
        self.is_quoted = self.is_quoted or quoted
        self.plain += 0 if self.is_quoted else len(text)


@dataclass(slots=True)
class _Reader:
    text: str
    line: int
    at: int = 0
    depth: int = 0
    problem: str | None = None
    _here: list[int] = field(default_factory=list)  # delimiters whose text is still to come

    def tokens(self, *, closes: bool = False) -> list[Token]:
        """Read to the end; with *closes* only to the `)` of what was opened before."""
        found: list[Token] = []
        opened, began = 0, self.line
        while self.at < len(self.text):
            if self._skip():
                continue
            operator = self._operator()
            if operator is None:
                found.append(self._word())
                if len(found) > 1 and not found[-2].is_word and found[-2].text in HERE_DOCUMENTS:
                    self._here.append(len(found) - 1)
                continue
            opened += {"(": 1, ")": -1}.get(operator, 0)
            if closes and opened < 0:
                return found
            self._add_operator(operator, found)
        if closes:
            self._fail(f"the ( of line {began} is not closed")
        for index in self._here:
            self._fail(f"the here-document {found[index].text!r} has no text")
        return found

    def _skip(self) -> bool:
        """Pass over one blank, a joined line or a comment; return whether there was any."""
        character = self.text[self.at]
        if character in " \t\r":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self._move(2)
        elif character == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            return False
        return True

    def _operator(self) -> str | None:
        if self.text.startswith(_OPENS_A_WORD, self.at) or self._arithmetic_end(self.at) is not None:
            return None
        found = _OPERATOR.match(self.text, self.at)
        return found.group() if found else None

    def _add_operator(self, operator: str, found: list[Token]) -> None:
        touches = operator in REDIRECTIONS and found and self.text[self.at - 1].isdigit()
        if touches and found[-1].is_plain and _FILE_NUMBER.fullmatch(found[-1].text):
            found.pop()  # the 2 of 2>&1
        found.append(Token(text=operator, line=self.line))
        self._move(len(operator))
        if operator == "\n":
            for index in self._here:
                found[index] = self._with_text(found[index], found[index - 1].text == "<<-")
            self._here = []

    def _with_text(self, delimiter: Token, without_tabs: bool) -> Token:
        body: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            one = self.text[self.at : end if end >= 0 else len(self.text)]
            self._move(len(one) + 1)
            if (one.lstrip("\t") if without_tabs else one) == delimiter.text:
                return replace(delimiter, body="\n".join(body))
            body.append(one)
        self._fail(f"the here-document {delimiter.text!r} is not closed")
        return replace(delimiter, body="\n".join(body))

    def _word(self) -> Token:
        word, line = _Word(), self.line
        while self.at < len(self.text):
            character = self.text[self.at]
            if not word.text and self.text.startswith(_OPENS_A_WORD, self.at):
                self._command(word, double=False)
            elif not word.text and (end := self._arithmetic_end(self.at)) is not None:
                self._copy(word, end, quoted=False)
            elif character == "(" and not word.is_quoted and ASSIGNMENT.fullmatch(word.text):
                self._command(word, double=False, opener=1)  # the items of an array
            elif character in _ENDS_A_WORD:
                break
            elif character in _SPECIAL:
                _SPECIAL[character](self, word)
            elif plain := _PLAIN.match(self.text, self.at):
                self._copy(word, plain.end(), quoted=False)
        return Token(text=word.text, line=line, is_word=True, plain=word.plain, scripts=tuple(word.scripts))

    def _escape(self, word: _Word) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following != "\n":
            word.add(following or "\\", quoted=True)
        self._move(2)

    def _single(self, word: _Word) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._fail(f"the ' of line {self.line} is not closed")
            end = len(self.text)
        word.add(self.text[self.at + 1 : end], quoted=True)
        self._move(end + 1 - self.at)

    def _double(self, word: _Word) -> None:
        opened = self.line
        word.add("", quoted=True)
        self._move(1)
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self._move(1)
                return
            if character == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                kept = following if following and following in '$`"\\' else "\\" + following
                word.add("" if following == "\n" else kept, quoted=True)
                self._move(2)
            elif character == "$":
                self._dollar(word, double=True)
            elif character == "`":
                self._backtick(word, double=True)
            elif text := _IN_DOUBLE.match(self.text, self.at):
                self._copy(word, text.end(), quoted=True)
        self._fail(f'the " of line {opened} is not closed')

    def _dollar(self, word: _Word, *, double: bool = False) -> None:
        if self.text.startswith("$'", self.at) and not double:
            self._ansi_c(word)
        elif self.text.startswith('$"', self.at) and not double:
            self._move(1)
        elif (end := self._arithmetic_end(self.at + 1)) is not None:
            self._copy(word, end, quoted=double)
        elif self.text.startswith("$(", self.at):
            self._command(word, double=double)
        elif self.text.startswith("${", self.at):
            self._braces(word, double=double)
        else:
            found = _VARIABLE.match(self.text, self.at)
            self._copy(word, found.end() if found else self.at + 1, quoted=double)

    def _ansi_c(self, word: _Word) -> None:
        opened = self.line
        word.add("", quoted=True)
        self._move(2)
        while self.at < len(self.text):
            character, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if character == "'":
                self._move(1)
                return
            if character == "\\" and following:
                character = _ANSI_C.get(following, "\\" + following)
                self._move(1)
            word.add(character, quoted=True)
            self._move(1)
        self._fail(f"the $' of line {opened} is not closed")

    def _command(self, word: _Word, *, double: bool, opener: int = 2) -> None:
        """Copy `$( … )`, `<( … )` or, after *opener* 1, the `( … )` of an array, and keep what runs in it."""
        inner = _Reader(self.text, self.line, at=self.at + opener, depth=self.depth + 1)
        if inner.depth > _DEEPEST:
            self._fail(f"commands stand more than {_DEEPEST} {TOO_DEEP}")
            self._copy(word, len(self.text), quoted=double)
            return
        tokens = inner.tokens(closes=True)
        word.scripts += [tuple(tokens)] if opener == 2 else [one for token in tokens for one in token.scripts]
        self._fail(inner.problem)
        self._copy(word, min(inner.at + 1, len(self.text)), quoted=double)

    def _braces(self, word: _Word, *, double: bool) -> None:
        start, opened = self.at, self.line
        inner, depth = _Word(), 0
        while self.at < len(self.text):
            if self.text.startswith("${", self.at):
                depth += 1
                self._move(2)
            elif self.text[self.at] == "}":
                depth -= 1
                self._move(1)
                if not depth:
                    break
            elif self.text.startswith("$(", self.at):
                self._command(inner, double=True)
            elif (read := _SPECIAL.get(self.text[self.at])) and not (double and self.text[self.at] == "'"):
                read(self, inner)
            else:
                self._move(1)
        if depth:
            self._fail(f"the ${{ of line {opened} is not closed")
        word.add(self.text[start : self.at], quoted=double)
        word.scripts += inner.scripts

    def _backtick(self, word: _Word, *, double: bool = False) -> None:
        found = _BACKTICKS.match(self.text, self.at)
        if found is None:
            self._fail(f"the ` of line {self.line} is not closed")
        body = re.sub(r"\\([`\\$])", r"\1", found[1] if found else self.text[self.at + 1 :])
        inner = _Reader(body, self.line, depth=self.depth + 1)
        if self.depth < _DEEPEST:
            word.scripts.append(tuple(inner.tokens()))
            self._fail(inner.problem)
        self._copy(word, found.end() if found else len(self.text), quoted=double)

    def _arithmetic_end(self, at: int) -> int | None:
        """Return where the `(( … ))` at *at* ends; None where two parentheses only happen to stand there."""
        if not self.text.startswith("((", at):
            return None
        depth = 0
        for end in range(at, min(len(self.text), at + _LONGEST_ARITHMETIC)):
            depth += {"(": 1, ")": -1}.get(self.text[end], 0)
            if depth == 0:
                return end + 1 if self.text[end - 1] == ")" else None
        return None

    def _copy(self, word: _Word, end: int, *, quoted: bool) -> None:
        word.add(self.text[self.at : end], quoted=quoted)
        self._move(end - self.at)

    def _move(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at = min(self.at + count, len(self.text))

    def _fail(self, problem: str | None) -> None:
        self.problem = self.problem or problem


_SPECIAL: Mapping[str, Callable[[_Reader, _Word], None]] = {
    "\\": _Reader._escape,  # noqa: SLF001 - a table of its methods
    "'": _Reader._single,  # noqa: SLF001
    '"': _Reader._double,  # noqa: SLF001
    "$": _Reader._dollar,  # noqa: SLF001
    "`": _Reader._backtick,  # noqa: SLF001
}
