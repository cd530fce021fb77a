from __future__ import annotations

STEP = """
    - label: A
      artifact_paths: [{path}]
      plugins:
        - docker#v5.2.0: {config}
      commands: [pytest tests]
"""


def test_docker_plugin104_an_artifact_that_stays_in_the_container_is_found(found):
    """`artifact_paths` is read on the host: without a mount nothing of the container is there."""
    said = "is looked for on the host, and no folder that docker mounts holds it"
    for path, config in (
        ("out/*.xml", "{image: x, mount-checkout: false}"),
        ("/app/out.xml", "{image: x}"),
        ("/app/out.xml", '{image: x, volumes: ["/mnt/cache:/app"]}'),
    ):
        assert found("CI505", STEP.format(path=path, config=config)) == [f"step 'A': artifact {path} {said}"]


def test_a_mounted_folder_and_the_plugins_own_checkout_are_fine(found):
    for path, config in (
        ("out/*.xml", "{image: x}"),
        ("out/*.xml", '{image: x, mount-checkout: false, volumes: ["./out:/app/out"]}'),
        ("/mnt/out/a.xml", '{image: x, volumes: ["/mnt/out:/out"]}'),
    ):
        assert found("CI505", STEP.format(path=path, config=config)) == []


def test_agent_stack_k8s251_a_pod_reads_the_paths_in_its_container(found):
    """In a Kubernetes pod the upload happens in the command's own container, after a failure too."""
    steps = "- {label: A, mirror_hardwares: l4_1, artifact_paths: [/app/out.xml], commands: [pytest tests]}"
    assert found("CI505", steps) == []
