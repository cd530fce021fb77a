"""The hardware a build asks for by its environment: pipelines loaded and fitted for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omni_ci.configuration import Configuration
from omni_ci.hardware.inference import Fitted, fitted
from omni_ci.hardware.preset_waits import with_preset_waits
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """*chip* is what all steps shall run on instead (MIRROR_HW), *amd* which of the older AMD lists counts."""

    chip: str | None = None
    amd: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Mirrors:
        """Return what *environ* asks for."""
        return cls(chip=environ.get("MIRROR_HW") or None, amd=environ.get("AMD_MIRROR_HW") or None)

    def fit(self, pipeline: PipelineFile, configuration: Configuration) -> Fitted:
        """Return *pipeline* with the hardware of its steps. Raises InputError and LoadError."""
        fit = fitted(
            pipeline,
            configuration.presets,
            platform=configuration.equipment(pipeline.name).platform,
            mirror_hw=self.chip,
            amd_mirror_hw=self.amd,
            vocabulary=configuration.vocabulary,
            more_marks=configuration.markers,
        )
        return replace(fit, pipeline=with_preset_waits(fit.pipeline, configuration.presets))

    def read(self, text: str, name: str, configuration: Configuration) -> Fitted:
        """Return the pipeline in *text* with the hardware of its steps. Raises InputError and LoadError."""
        return self.fit(load_pipeline(text, name=name), configuration)
