"""From the tokens of a shell script to its commands, through lists, loops, conditions, functions and inner scripts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import count
from operator import xor

from omni_ci.shell.commands import SHELLS, TAKE_A_SCRIPT, Command, Script, shell_arguments
from omni_ci.shell.drafts import Draft, Opened
from omni_ci.shell.lexer import tokenized
from omni_ci.shell.tokens import ASSIGNMENT, REDIRECTIONS, TOO_DEEP, Token

_SEPARATORS = frozenset(["\n", ";", "&", "&&", "||", "|", "|&", ";;", ";&", ";;&"])
# What a keyword that opens, goes on or closes says about the commands after it.
_OPENS = {"if": "if", "while": "while", "until": "while", "{": "{ }"}
_GOES_ON = {"then": "then", "elif": "if", "else": "then", "do": "do"}
_CLOSES = frozenset(["fi", "done", "}", "esac"])
_PASSED_OVER = frozenset(["!", "time", "coproc"])
_LOOPS = frozenset(["for", "select"])
_DEEPEST = 8


@lru_cache(maxsize=8192)
def parse(script: str) -> Script:
    """Return the commands of *script*, in which `$$` is turned into `$` already; never raises."""
    tokens, problem = tokenized(script)
    parser = _Parser(tokens, problem=problem)
    parser.read()
    return Script(
        commands=tuple(parser.found),
        problem=parser.problem,
        loops=frozenset(parser.loops),
        functions=parser.functions,
    )


@dataclass(slots=True)
class _Parser:
    tokens: Sequence[Token]
    inside: tuple[str, ...] = ()
    within: tuple[int, ...] = ()
    is_inverted: bool = False
    numbers: Iterator[int] = field(default_factory=count)
    functions: dict[int, str] = field(default_factory=dict)
    folder: str = ""
    depth: int = 0
    problem: str | None = None
    found: list[Command] = field(default_factory=list)
    loops: set[str] = field(default_factory=set)
    _at: int = 0
    _stack: list[Opened] = field(default_factory=list)
    _draft: Draft = field(default_factory=Draft)

    def read(self) -> None:
        while self._at < len(self.tokens):
            token = self.tokens[self._at]
            self._at += 1
            if token.is_word:
                self._word(token)
            elif token.text in REDIRECTIONS:
                self._redirection(token)
            elif token.text in _SEPARATORS:
                self._end(token.text)
            else:
                self._parenthesis(token.text)
        self._end("")

    def _word(self, token: Token) -> None:
        draft = self._draft
        if not draft.words and not draft.assigns and token.is_plain and self._keyword(token):
            return
        draft.line = draft.line or token.line
        assigned = ASSIGNMENT.match(token.text)
        if not draft.words and assigned and assigned.end() <= token.plain:
            draft.assigns.append((assigned[1], token.text[assigned.end() :]))
        else:
            draft.words.append(token)
        draft.scripts += token.scripts

    def _keyword(self, token: Token) -> bool:
        word = token.text
        if word in _OPENS:
            self._open(_OPENS[word])
        elif word in _GOES_ON:
            self._close()
            self._open(_GOES_ON[word])
            self._draft.before = ""
        elif word in _CLOSES:
            self._close()
            self._draft.before = ""
        elif word in _LOOPS:
            self._loop()
        elif word == "case":
            self._scripts_until("in")
            self._open("case")
            self._pattern()
        elif word == "function":
            name = self.tokens[self._at].text if self._at < len(self.tokens) else ""
            self._at += 3 if self._next_is("(", ahead=1) else 1
            self._open("function", name)
        elif word == "[[":
            self._test(token)
        else:
            self._draft.is_inverted ^= word == "!"
            return word in _PASSED_OVER
        return True

    def _loop(self) -> None:
        if self._at < len(self.tokens):
            self.loops.add(self.tokens[self._at].text)
        self._scripts_until("")
        self._open("for")

    def _scripts_until(self, word: str) -> None:
        """Pass over words, keeping what `$( )` in them runs, up to *word* or a separator."""
        while self._at < len(self.tokens) and self.tokens[self._at].is_word:
            token = self.tokens[self._at]
            self._at += 1
            self._draft.scripts += token.scripts
            if word and token.is_plain and token.text == word:
                break
        self._nested_scripts()

    def _pattern(self) -> None:
        """Pass over `a|b)` of a case, unless it ends here."""
        while self._at < len(self.tokens) and self.tokens[self._at].text == "\n":
            self._at += 1
        if self._at < len(self.tokens) and self.tokens[self._at].text == "esac":
            return
        while self._at < len(self.tokens) and self.tokens[self._at].text != ")":
            self._at += 1
        self._at += 1

    def _test(self, opening: Token) -> None:
        """Take `[[ … ]]` as one command: its operators are words."""
        self._draft.words.append(opening)
        self._draft.line = opening.line
        while self._at < len(self.tokens):
            token = self.tokens[self._at]
            self._at += 1
            self._draft.words.append(token)
            self._draft.scripts += token.scripts
            if token.is_plain and token.text == "]]":
                break

    def _redirection(self, token: Token) -> None:
        if self._at < len(self.tokens) and self.tokens[self._at].is_word:
            target = self.tokens[self._at]
            self._at += 1
            self._draft.line = self._draft.line or token.line
            self._draft.redirects.append((token.text, target))
            self._draft.scripts += target.scripts

    def _parenthesis(self, text: str) -> None:
        draft = self._draft
        if text == "(" and len(draft.words) == 1 and self._next_is(")"):
            self._draft = Draft(before=draft.before)
            self._at += 1
            self._open("function", draft.words[0].text)
        elif text == "(":
            is_inverted = draft.is_empty and draft.is_inverted
            self._end("")
            self._draft.is_inverted = is_inverted
            self._open("subshell")
        else:
            self._end("")
            while any(one.what == "subshell" for one in self._stack):
                if self._close() == "subshell":
                    break

    def _next_is(self, text: str, *, ahead: int = 0) -> bool:
        at = self._at + ahead
        return at < len(self.tokens) and self.tokens[at].text == text

    def _open(self, what: str, name: str = "") -> None:
        number = next(self.numbers)
        if name:
            self.functions[number] = name
        self._stack.append(Opened(what, number, self.folder, self._draft.is_inverted))
        self._draft.is_inverted = False

    def _close(self) -> str:
        if not self._stack:
            return ""
        closed = self._stack.pop()
        if closed.what == "subshell":
            self.folder = closed.folder
        if closed.what == "{ }" and self._stack and self._stack[-1].what == "function":
            self._stack.pop()
        return closed.what

    def _end(self, operator: str) -> None:
        """Finish the command that was being read; *operator* ends it."""
        draft = self._draft
        shown = "" if operator == "\n" or operator.startswith(";;") else operator
        command = None if draft.is_empty else self._command(draft, shown)
        if command is not None:
            self.found.append(command)
            self._change_folder(command)
        self._nested_scripts()
        if command is not None:
            self._nested_text(command, draft)
        # a && goes on in the next line, and in a parenthesis
        goes_on = draft.is_empty and operator in {"", "\n"}
        self._draft = Draft(before=draft.before if goes_on else shown)
        if operator.startswith(";;"):
            self._pattern()

    def _command(self, draft: Draft, after: str) -> Command:
        return Command(
            words=tuple(token.text for token in draft.words),
            line=draft.line,
            before=draft.before,
            after=after,
            inside=(*self.inside, *(one.what for one in self._stack)),
            within=(*self.within, *(one.number for one in self._stack)),
            assigns=tuple(draft.assigns),
            redirects=tuple((operator, target.text) for operator, target in draft.redirects),
            folder=self.folder,
            is_inverted=reduce(
                xor, (one.is_inverted for one in self._stack), draft.is_inverted ^ self.is_inverted
            ),
        )

    def _change_folder(self, command: Command) -> None:
        if command.name in {"cd", "pushd"}:
            to = next(
                (word for word in command.words[1:] if not word.startswith("-") or word == "-"), "$HOME"
            )
            self.folder = _joined(self.folder, "$OLDPWD" if to == "-" else to)
        elif command.name == "popd":
            self.folder = "$OLDPWD"

    def _nested_scripts(self) -> None:
        """Read what `$( )` in the command's words runs."""
        for tokens in self._draft.scripts:
            self._nested(tokens, "$()")
        self._draft.scripts = []

    def _nested_text(self, command: Command, draft: Draft) -> None:
        """Read the script that the command hands to a shell as text."""
        for text, line, what in _texts(command, draft):
            tokens, problem = tokenized(text, line=line)
            is_inverted = command.is_inverted and what != "trap"
            self._nested(tokens, what, problem=problem, is_inverted=is_inverted)

    def _nested(
        self, tokens: Sequence[Token], what: str, *, problem: str | None = None, is_inverted: bool = False
    ) -> None:
        if self.depth >= _DEEPEST:
            self.problem = self.problem or f"scripts stand more than {_DEEPEST} {TOO_DEEP}"
            return
        inner = _Parser(
            tokens,
            inside=(*self.inside, *(one.what for one in self._stack), what),
            within=(*self.within, *(one.number for one in self._stack), next(self.numbers)),
            is_inverted=is_inverted,
            numbers=self.numbers,
            functions=self.functions,
            folder=self.folder,
            depth=self.depth + 1,
        )
        inner.read()
        said = problem or inner.problem
        self.problem = self.problem or (
            said and (said if what == "$()" else f"in the script of {what}: {said}")
        )
        self.found += inner.found
        self.loops |= inner.loops


def _texts(command: Command, draft: Draft) -> Iterator[tuple[str, int, str]]:
    """Yield the scripts that *command* gets as text: the script, its line, and what runs it."""
    if command.name in TAKE_A_SCRIPT and len(command.words) > 1 and command.words[1] not in {"", "-"}:
        words = command.words[1:] if command.name == "eval" else command.words[1:2]
        yield " ".join(words), draft.words[1].line, command.name
    elif (inline := shell_arguments(command.words)) is not None:
        yield inline.script, draft.words[inline.at].line, "bash -c"
    elif command.name in SHELLS and not any(not word.startswith("-") for word in command.words[1:]):
        for _, target in draft.redirects:
            if target.body is not None:
                yield target.body, target.line + 1, "bash <<"


def _joined(folder: str, to: str) -> str:
    joined = posixpath.normpath(to if to.startswith(("$", "~")) else posixpath.join(folder, to))
    return "" if joined == "." else joined
