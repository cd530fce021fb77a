from __future__ import annotations

import pytest

from omni_ci.runner.mounts import Mount, mount_of, mounts
from omni_hardware.errors import InfrastructureError

MOUNTINFO = """\
22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a
23 22 0:21 / /dev/shm rw,nosuid shared:5 - tmpfs tmpfs rw
24 22 259:1 /cache /mnt/hf-cache rw,relatime master:1 shared:2 - nfs4 server:/x rw
25 22 259:2 / /mnt/with\\040blank rw - ext4 /dev/sda rw
26 24 259:3 / /mnt/hf-cache rw - xfs /dev/sdb rw
not a line
27 22 0:3 / /broken rw
"""


@pytest.fixture
def known(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTINFO)
    return mounts(tmp_path)


def test_the_kernels_table_is_read(known):
    assert [mount.point for mount in known] == [
        "/", "/dev/shm", "/mnt/hf-cache", "/mnt/with blank", "/mnt/hf-cache",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        (
            "/mnt/hf-cache/hub/not/yet",
            Mount("/mnt/hf-cache", "xfs"),
        ),  # the last one on a point covers the others
        ("/mnt/hf-cache", Mount("/mnt/hf-cache", "xfs")),
        ("/mnt/hf-cache-2", Mount("/", "overlay")),
        ("/mnt/with blank/x", Mount("/mnt/with blank", "ext4")),
        ("/home/x", Mount("/", "overlay")),
    ],
)
def test_a_path_lies_on_the_deepest_mount_above_it(known, path, mount):
    assert mount_of(path, known) == mount


def test_no_table_is_said(tmp_path):
    with pytest.raises(InfrastructureError, match="mountinfo cannot be read: No such file"):
        mounts(tmp_path)


def test_this_machines_own_table_has_a_root():
    assert mount_of("/", mounts()) is not None
