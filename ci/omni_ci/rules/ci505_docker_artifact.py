from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


class DockerArtifactsReachTheHost(Rule):
    """An artifact of a docker step is written to a folder of the host.

    `artifact_paths` is read on the host, after the container is gone. The plugin mounts the checkout by itself;
    with `mount-checkout: false`, or for a path outside of it, a volume must lead out, or the commands upload the
    file themselves. In a Kubernetes pod the paths are read in the container.
    """

    code = "CI505"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            declared = job.rendered.get("artifact_paths") or ()
            for path in [declared] if isinstance(declared, str) else declared:
                for config in job.docker:
                    if not _is_mounted(str(path), config):
                        yield job.found(
                            str(path),
                            f"artifact {path} is looked for on the host, and no folder that docker mounts holds it",
                        )


def _is_mounted(path: str, config: Mapping[str, Any]) -> bool:
    volumes = config.get("volumes")
    mounts = [str(one).split(":") for one in volumes] if isinstance(volumes, list) else []
    if not path.startswith("/"):
        own = config.get("mount-checkout") in {None, True, "true"}
        return own or any(mount[0].startswith(".") for mount in mounts)
    hosts = [mount[0].rstrip("/") for mount in mounts if mount[0].startswith("/")]
    return any(path == host or path.startswith(f"{host}/") for host in hosts)
