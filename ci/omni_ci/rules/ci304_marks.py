from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_hardware.static_marks import check_source


class MarksAgree(Rule):
    """The hardware marks of a test agree with each other.

    These are the rules that the plugin enforces at collection: arguments of `hardware_test`, contradictory marks, a
    SKU without a number of cards. Asked where pyproject.toml has `[tool.omni]`; also as
    `python -m omni_hardware.static_marks PATH…`.
    """

    code = "CI304"
    asks_about_all = True

    def check(self, context: Context) -> Iterator[Found]:
        if context.setting("tool", "omni") is None:
            return
        for path in context.test_paths.tests:
            for one in check_source(context.read(path) or "", path, context.vocabulary):
                yield Found(file=path, line=one.line, subject=path, key=one.message, message=one.message)
