"""The output against published schemas: Buildkite's own, step by step, and Kubernetes' for the pods."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError, best_match

from omni_ci.checks.findings import Finding, Placed
from omni_ci.hardware.plugins import Pod, pods_of, wrong_shapes
from omni_ci.yaml.kinds import BARE_WORDS
from omni_hardware.errors import did_you_mean

# Judged alone, a step gets a message about itself; judged as one of the schema's alternatives it gets all of theirs.
_DEFINITIONS = {
    "group": "groupStep",
    "wait": "waitStep",
    "waiter": "waitStep",
    "block": "blockStep",
    "input": "inputStep",
    "trigger": "triggerStep",
}
# Tried from new to old: an older kubernetes-validate lacks the newer schemas.
_KUBERNETES = ("1.34", "1.33", "1.32", "1.31", "1.30")


def check_schema(document: Mapping[str, Any], steps: list[Placed], *, where: str) -> Iterator[Finding]:
    """Yield what Buildkite's schema refuses, as "step 'label': path: reason"; *where* is the place of the document."""
    top = {key: value for key, value in document.items() if key != "steps"}
    for key in sorted(top.keys() - _schema()["properties"].keys()):
        known = sorted(_schema()["properties"])
        yield Finding(code="SCHEMA", where=where, message=f"unknown key {key!r}{did_you_mean(key, known)}")
    for error in _validator(None).iter_errors({**top, "steps": []}):
        yield Finding(code="SCHEMA", where=where, message=_said(error))
    for placed in steps:
        if isinstance(placed.step, str):
            if placed.step not in BARE_WORDS:
                yield placed.finding(
                    "SCHEMA", f"{placed.step!r} is no step; bare words are {', '.join(sorted(BARE_WORDS))}"
                )
            continue
        definition = next((_DEFINITIONS[key] for key in _DEFINITIONS if key in placed.step), "commandStep")
        judged = {**placed.step, "steps": ["wait"]} if placed.is_group else placed.step
        for error in _validator(definition).iter_errors(judged):
            yield placed.finding("SCHEMA", _said(error))


def check_kubernetes(steps: list[Placed]) -> Iterator[Finding]:
    """Yield what Kubernetes' schema refuses in the pods, strictly; nothing where kubernetes-validate is absent."""
    if not kubernetes_is_checked():
        return
    judged: dict[str, str | None] = {}
    for placed in steps:
        for pod in pods_of(placed.step.get("plugins") if isinstance(placed.step, dict) else None):
            text = json.dumps([pod.spec, pod.is_patch], sort_keys=True, default=str)
            if text not in judged:
                judged[text] = _pod_problem(pod)
            if (problem := judged[text]) is not None:
                yield placed.finding("KUBERNETES", problem)


def kubernetes_is_checked() -> bool:
    """Return whether kubernetes-validate is installed (the `validate` extra)."""
    return importlib.util.find_spec("kubernetes_validate") is not None


def _pod_problem(pod: Pod) -> str | None:
    if any(wrong_shapes(pod)):
        return None  # S11 says so
    import kubernetes_validate

    containers = [
        {"name": f"container-{index}", **container} if isinstance(container, Mapping) else container
        for index, container in enumerate(pod.spec.get("containers") or [])
    ]
    spec = {**pod.spec, "containers": containers}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}, "spec": spec}
    for version in _KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            continue
        except ValidationError as error:
            return _said(error)
        return None
    return None


def _said(error: ValidationError) -> str:
    """Return the deepest reason in one line, with the nearest valid name for a key that does not exist."""
    deepest = best_match([error]) or error
    path = ".".join(map(str, deepest.absolute_path))
    prefix = f"{path}: " if path else ""
    if deepest.validator == "additionalProperties" and isinstance(deepest.instance, Mapping):
        known = sorted(deepest.schema.get("properties", {})) if isinstance(deepest.schema, Mapping) else []
        unknown = sorted(set(map(str, deepest.instance)) - set(known))
        return prefix + "; ".join(f"unknown key {key!r}{did_you_mean(key, known)}" for key in unknown)
    reason = deepest.message if len(deepest.message) <= 300 else f"{deepest.message[:300]}…"
    return prefix + reason


@cache
def _schema() -> dict[str, Any]:
    # read as a file: importing the package would load its thousand models
    spec = importlib.util.find_spec("buildkite_sdk")
    assert spec is not None
    text = (resources.files("buildkite_sdk") / "schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _validator(definition: str | None) -> Draft7Validator:
    schema = _schema()
    if definition is None:
        return Draft7Validator(schema)
    return Draft7Validator({"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]})
