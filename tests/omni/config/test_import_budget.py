from __future__ import annotations

import subprocess
import sys

LIGHT = (
    "omni",
    "omni.errors",
    "omni.config.attention",
    "omni.models.catalog",
    "omni.models.sizes",
    "omni.models.discovery",
    "omni.models.tiny",
    "omni.attention.registry",
    "omni.attention.selector",
    "omni.attention.report",
    "omni.platforms.devices",
    "omni.engine.request",
)
HEAVY = ("torch", "diffusers", "transformers", "numpy", "huggingface_hub", "PIL")


def test_what_needs_no_model_imports_no_library() -> None:
    code = f"import sys, {', '.join(LIGHT)}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
