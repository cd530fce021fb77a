"""Kubernetes quantities, read exactly and multiplied without rounding."""

from __future__ import annotations

import re
from decimal import Decimal

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ : a decimal number and one suffix.
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<suffix>[numkMGTPE]|[KMGTPE]i)?")
_FACTORS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def value_of(quantity: object) -> Decimal:
    """Return the number a quantity stands for, in its base unit (cores, bytes, devices).

    Raises ValueError with the reason when Kubernetes would not take it: "one", "16GB", a bool.
    """
    number, suffix = _split(quantity)
    return number * _FACTORS[suffix]


def multiplied(quantity: object, factor: int) -> str:
    """Return *quantity* times *factor* in the same unit: "40Gi" times 2 is "80Gi". Raises ValueError."""
    number, suffix = _split(quantity)
    product = number * factor
    whole = product == product.to_integral_value()
    return f"{product.quantize(Decimal(1)) if whole else product.normalize():f}{suffix or ''}"


def docker_size(quantity: object) -> str:
    """Return *quantity* as `docker run --shm-size` writes it: "8Gi" is "8gb" there. Raises ValueError."""
    number, suffix = _split(quantity)
    if suffix in {"Ki", "Mi", "Gi"} and number == number.to_integral_value():
        return f"{number:f}{suffix[0].lower()}b"
    return f"{value_of(quantity).to_integral_value():f}b"


def _split(quantity: object) -> tuple[Decimal, str | None]:
    text = str(quantity)
    found = None if isinstance(quantity, bool) else _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no Kubernetes quantity; write a number like 10, 500m or 40Gi")
    return Decimal(found["number"]), found["suffix"]
