"""The hardware a build asks for by its environment: pipelines loaded and fitted for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omni_ci.configuration import Configuration
from omni_ci.hardware.inference import Fitted, fitted
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_hardware.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """*chip* is what all steps shall run on instead (MIRROR_HW), *amd* which of the older AMD lists counts."""

    vocabulary: Vocabulary
    chip: str | None = None
    amd: str | None = None
    markers: tuple[str, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str], vocabulary: Vocabulary, markers: tuple[str, ...] = ()) -> Mirrors:
        """Return what *environ* asks for; *markers* are the project's own, which its tests may be selected by."""
        return cls(
            vocabulary=vocabulary,
            chip=environ.get("MIRROR_HW") or None,
            amd=environ.get("AMD_MIRROR_HW") or None,
            markers=markers,
        )

    def load(self, text: str, name: str) -> PipelineFile:
        """Return the pipeline in *text*. Raises LoadError."""
        return load_pipeline(text, name=name)

    def fit(self, pipeline: PipelineFile, configuration: Configuration) -> Fitted:
        """Return *pipeline* with the hardware of its steps. Raises InputError and LoadError."""
        return fitted(
            pipeline,
            configuration.presets,
            platform=configuration.equipment(pipeline.name).platform,
            mirror_hw=self.chip,
            amd_mirror_hw=self.amd,
            vocabulary=self.vocabulary,
            more_marks=self.markers,
        )

    def read(self, text: str, name: str, configuration: Configuration) -> Fitted:
        """Return the pipeline in *text* with the hardware of its steps. Raises InputError and LoadError."""
        return self.fit(self.load(text, name), configuration)
