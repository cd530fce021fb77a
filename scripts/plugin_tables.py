"""The tables of the plugin's reference page, each a header and rows read from the plugin's own code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from types import ModuleType
from typing import Any

from omni_hardware.probes.vendors import VENDORS
from omni_hardware.vocabulary import DEFAULT
from pytest_omni import hookspecs
from pytest_omni.armed import FEATURES
from pytest_omni.isolation import fresh_process
from pytest_omni.marks import MARKER_LINE
from pytest_omni.options import OPTIONS, Kind, Option
from pytest_omni.reporting import ledger
from pytest_omni.servers.child_coverage import Recorded
from pytest_omni.servers.params import OmniServerParams
from pytest_omni.servers.stopping import Stopped
from pytest_omni.weights import Weights

Table = tuple[list[str], list[list[str]]]

# What the docstring of OmniServerParams need not say to a reader of the code.
_PLAIN = {
    "model": "handed to your hook",
    "server_args": "strings in a tuple or list, handed to your hook as a tuple",
    "health_path": "must answer 200",
}


def options() -> Table:
    """Return every option with the ini key and the variable that say the same."""
    return ["option", "ini", "env", "default", "meaning"], [
        [_flag(row), _code(row.ini), _code(row.env), _default(row), f"{row.help}{_words(row)}"]
        for row in OPTIONS
    ]


def fixtures() -> Table:
    """Return every fixture with its scope and the first line of its docstring."""
    return ["fixture", "scope", "what you get"], [
        [f"`{name}`", scope, _first_line(doc)]
        for name, scope, doc in sorted(_fixtures(map(import_module, FEATURES)))
    ]


def hooks() -> Table:
    """Return every hook with its arguments and what its docstring says."""
    found = inspect.getmembers(hookspecs, inspect.isfunction)
    return ["hook", "what it answers"], [
        [f"`{name}({', '.join(inspect.signature(hook).parameters)})`", _text(inspect.getdoc(hook))]
        for name, hook in found
        if name.startswith("pytest_omni_")
    ]


def marks() -> Table:
    """Return the marks that are no words of the vocabulary."""
    name, _, meaning = MARKER_LINE.partition(": ")
    forms = re.findall(
        r"^    (fresh_process\S*(?: \S+)*?) {2,}(.+)$", fresh_process.__doc__ or "", re.MULTILINE
    )
    return ["mark", "meaning"], [[f"`{name}`", meaning], *([f"`{form}`", text] for form, text in forms)]


def report_words() -> Table:
    """Return the words that report.json uses."""
    rows: list[tuple[str, Iterable[str]]] = [
        ("`state` of a test", ledger.State),
        ("`kind`: who withheld it", ledger.Kind),
        ("`stopped` of a server", Stopped),
        ("`coverage` of a server", Recorded),
        ("`weights` of a server, and of the session", Weights),
    ]
    return ["field", "words"], [[what, ", ".join(f"`{word}`" for word in words)] for what, words in rows]


def server_params() -> Table:
    """Return every field of OmniServerParams with its default and meaning."""
    said = _said_of_fields()
    return ["field", "default", "meaning"], [
        [f"`{row.name}`", _code_of_default(row), said[row.name]] for row in fields(OmniServerParams)
    ]


def inventory() -> Table:
    """Return who is asked on each platform, and whether that was ever seen on a device."""
    return ["platform", "asked", "seen on a real device", "also tells"], [
        [
            f"`{row.platform}`",
            ", ".join(f"`{tool}`" for tool in (row.tools if row.needs_tool else ("NVML", *row.tools))),
            "yes" if row.proven else "no: only its parser, on published outputs",
            ", ".join(row.tells),
        ]
        for row in VENDORS
    ]


TABLES = {
    "plugin-options": options,
    "plugin-fixtures": fixtures,
    "plugin-hooks": hooks,
    "plugin-marks": marks,
    "report-words": report_words,
    "server-params": server_params,
    "inventory": inventory,
}


def _flag(row: Option) -> str:
    text = f"`{row.flag} {row.metavar}`" if row.metavar else f"`{row.flag}`"
    can_be_off = row.kind is Kind.SWITCH and (row.ini or row.env)
    return f"{text}, `--no-{row.flag.removeprefix('--')}`" if can_be_off else text


def _default(row: Option) -> str:
    if row.kind is Kind.SWITCH:
        return "off"
    return "–" if row.default is None else f"`{row.default}`"


def _words(row: Option) -> str:
    found = row.words(DEFAULT) if row.words else ()
    told = all(word in row.help for word in found)
    return "" if told else f": {', '.join(f'`{word}`' for word in found)}"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else "–"


def _fixtures(modules: Iterable[ModuleType]) -> Iterator[tuple[str, str, str]]:
    for module in modules:
        for name, found in vars(module).items():
            marker: Any = getattr(found, "_fixture_function_marker", None)  # pytest's own, private
            if marker is not None:
                yield marker.name or name, marker.scope, inspect.getdoc(found) or ""


def _said_of_fields() -> dict[str, str]:
    names = "|".join(row.name for row in fields(OmniServerParams))
    text = " ".join((inspect.getdoc(OmniServerParams) or "").split())
    found = re.findall(rf"\b({names}): (.*?)(?=\s(?:{names}): |$)", text)
    return _PLAIN | {name: said.rstrip(".") for name, said in found}


def _code_of_default(row: Any) -> str:
    if row.default is not MISSING:
        return f"`{row.default:g}`" if isinstance(row.default, float) else f"`{row.default}`"
    return "–" if row.default_factory is MISSING else "`{}`"


def _first_line(doc: str) -> str:
    return _text(doc.partition("\n\n")[0])


def _text(doc: str | None) -> str:
    text = " ".join((doc or "").replace("``", "`").split())
    return re.sub(r"(?<![\w*`])\*(\w+)\*(?![\w*])", r"`\1`", text)
