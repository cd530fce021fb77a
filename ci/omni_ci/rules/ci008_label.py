from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from omni_ci.configuration import ConfigKind, Configuration
from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.yaml.document import LocatedDict, Where, flattened
from omni_ci.yaml.reading import read
from omni_hardware.errors import did_you_mean


class LabelsHaveSteps(Rule):
    """A pattern of policy's `labels` matches a step.

    A pull request with the label asks for steps; where the pattern matches the key, label and group of none, the
    label does nothing, and nobody is told. Patterns are compared with the whole name and its case: write `"*text*"`,
    or take the pattern out with its label.
    """

    code = "CI008"
    asks_about_all = True

    def check(self, context: Context) -> Iterator[Found]:
        policies = {_policy_file(one): one for one in context.configurations.values()}
        for file, configuration in policies.items():
            if file is None:
                continue
            names = list(_names(file, context))
            for label, pattern, where in _patterns(configuration.texts[file], file):
                if not any(fnmatchcase(name, pattern) for name in names):
                    message = (
                        f"label {label!r} asks for steps {pattern!r}, and no step of any pipeline has such a "
                        f"key, label or group{did_you_mean(pattern, names)}"
                    )
                    yield Found(
                        file=file, line=where.line, subject=f"{file}#{label}", key=pattern, message=message
                    )


def _policy_file(configuration: Configuration) -> str | None:
    return next((path for path, kind in configuration.sources.items() if kind is ConfigKind.POLICY), None)


def _names(policy_file: str, context: Context) -> Iterator[str]:
    """Yield the names that the selection compares a label's patterns with."""
    for pipeline in context.pipelines:
        if _policy_file(context.configurations[pipeline.name]) == policy_file:
            for group, leaf in pipeline.leaves():
                yield from filter(None, (leaf.ident, leaf.label, group.group if group else None))


def _patterns(text: str, file: str) -> Iterator[tuple[str, str, Where]]:
    document, _ = read(text, file)
    labels = document.get("labels") if isinstance(document, dict) else None
    if isinstance(labels, LocatedDict):
        for label, patterns in labels.items():
            found = flattened(patterns, labels.keys_at[label])
            yield from ((label, pattern, where) for pattern, where in found if isinstance(pattern, str))
