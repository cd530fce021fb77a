"""Every key that lets a job reach the machine under it, however it is spelled."""

from __future__ import annotations

from typing import Any

import pytest

from omni_ci.hardware.host_access import Access, accesses_of


def docker(**config: Any) -> Any:
    return [{"docker#v5.2.0": {"image": "i", **config}}]


def pod(**spec: Any) -> Any:
    return [{"kubernetes": {"podSpec": {"containers": [{"name": "c"}], **spec}}}]


def container(**given: Any) -> Any:
    return pod(containers=[{"name": "c", **given}])


ROOT = {"privileged": True}
UPLOAD = Access(None, "uploadVariable")


@pytest.mark.parametrize(
    ("plugins", "opened"),
    [
        (docker(privileged=True), [Access("/", "privileged")]),
        (docker(privileged="true"), [Access("/", "privileged")]),
        (docker(PRIVILEGED=1), [Access("/", "privileged")]),
        (docker(privileged=False), []),
        (docker(privileged="off"), []),
        (docker(**{"mount-docker-sock": True}), [Access("/var/run/docker.sock", "mount-docker-sock")]),
        (docker(mount_docker_sock=True), [Access("/var/run/docker.sock", "mount-docker-sock")]),
        (docker(**{"mount-ssh-agent": "/root"}), [Access("$SSH_AUTH_SOCK", "mount-ssh-agent")]),
        (docker(volumes=["/etc:/e", "cache:/c", ".:/src"]), [Access("/etc")]),
        (docker(volumes=["/:/host,src=."]), [Access("/")]),  # -v reads up to the colon
        (docker(mounts=["type=bind,src=.,src=/,target=/h"]), [Access("/")]),  # the last source counts
        (docker(volumes=["/=/..:/host,src=."]), [Access("/=/..")]),
        (docker(volumes=["./link:/host"]), [Access("./link")]),  # a commit may make it a link to anywhere
        (docker(volumes=["./:/src", ".:/src"]), []),
        (docker(network="${NET:-host}"), [UPLOAD]),
        (docker(pid="$P", ipc="private"), [UPLOAD]),
        (docker(**{"add-caps": ["SYS_${X:-ADMIN}"]}), [UPLOAD]),
        (docker(**{"${X:-privileged}": True}), [UPLOAD]),
        ([{"${D:-docker}#v5": {"image": "i", "privileged": True}}], [UPLOAD]),
        ([{"docker#$VERSION": {"image": "i"}}], []),
        (container(securityContext={"capabilities": {"add": ["${X:-SYS_ADMIN}"]}}), [UPLOAD]),
        ([{"kubernetes": {"${X:-podTemplate}": "t"}}], [UPLOAD]),
        (docker(Volumes="/etc:/e"), [Access("/etc")]),
        (docker(**{"volumes-0": "/etc:/e"}), [Access("/etc")]),
        (docker(mounts=["/etc:/e"]), [Access("/etc")]),
        (docker(mounts=["type=bind,source=/,target=/h"]), [Access("/")]),
        (docker(volumes=[{"type": "bind", "source": "/etc", "target": "/e"}]), [Access("/etc")]),
        (docker(devices=["/dev/kmsg:/dev/kmsg:rw", "/dev/dri"]), [Access("/dev/kmsg"), Access("/dev/dri")]),
        (docker(**{"env-file": ["/etc/shadow", "ci/env"]}), [Access("/etc/shadow")]),
        (docker(network="host"), [Access("/", "hostNetwork")]),
        (docker(pid="host", ipc="host", userns="host"), [
            Access("/", "hostPID"), Access("/", "hostIPC"), Access("/", "hostUsers"),
        ]),
        (docker(network="tests"), []),
        (docker(**{"add-caps": ["SYS_ADMIN", "IPC_LOCK"]}), [Access("/", "SYS_ADMIN")]),
        (docker(gpus="all", **{"shm-size": "1g", "mount-buildkite-agent": True}), []),
        (["docker-compose#v4.16.0"], [Access(None, "docker-compose")]),
        ([{"docker-compose#v4.16.0": {"run": "app"}}], [Access(None, "docker-compose")]),
        (pod(hostNetwork=True), [Access("/", "hostNetwork")]),
        (pod(hostPID=True, hostIPC=True), [Access("/", "hostPID"), Access("/", "hostIPC")]),
        (pod(hostNetwork=False), []),
        (pod(initContainers=[{"securityContext": ROOT}]), [Access("/", "privileged")]),
        (container(securityContext=ROOT), [Access("/", "privileged")]),
        (container(securitycontext={"Privileged": True}), [Access("/", "privileged")]),
        (container(securityContext={"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}}), []),
        (container(securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}}), [Access("/", "SYS_ADMIN")]),
        ([{"kubernetes": {"sidecars": [{"securityContext": ROOT}]}}], [Access("/", "privileged")]),
        ([{"kubernetes": {"podSpecPatch": {"hostPID": True}}}], [Access("/", "hostPID")]),
        ([{"kubernetes": {"podSpecPatch": {"ephemeralContainers": [{"securityContext": ROOT}]}}}], [
            Access("/", "privileged"),
        ]),
        ([{"kubernetes": {"podTemplate": "builder"}}], [Access(None, "podTemplate")]),
        (pod(volumes=[{"name": "v", "flexVolume": {"driver": "d"}}]), [Access(None, "flexVolume")]),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/mnt"}}]), [Access("/mnt")]),
        (pod(volumes=[{"name": "v", "hostpath": {"Path": "/mnt"}}]), [Access("/mnt")]),
        (pod(nodeSelector={"privileged": "yes", "hostNetwork": "true"}), []),
        (pod(volumes=[{"name": "v", "emptyDir": {}}]), []),
    ],
)  # fmt: skip
def test_what_opens_the_host_is_seen(plugins: Any, opened: list[Access]) -> None:
    assert list(accesses_of(plugins)) == opened


@pytest.mark.parametrize("plugins", [None, "x", 5, [5, None], [{"docker": "x"}], [{"kubernetes": [1]}]])
def test_what_is_no_plugin_opens_nothing(plugins: Any) -> None:
    assert list(accesses_of(plugins)) == []
