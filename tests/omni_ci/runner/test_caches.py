from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from omni_ci.errors import GuardError
from omni_ci.runner.caches import caches_of, for_each_process, job_name, make


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"BUILDKITE_JOB_ID": "0190-ab", "BUILDKITE_PARALLEL_JOB": "1"}, "0190-ab"),
        ({"BUILDKITE_PARALLEL_JOB": "1"}, "1"),
        ({"BUILDKITE_JOB_ID": ""}, "local"),
        ({"BUILDKITE_JOB_ID": "../../etc"}, "_.._etc"),
        ({"BUILDKITE_JOB_ID": "a b;rm"}, "a_b_rm"),
        ({"BUILDKITE_JOB_ID": ".."}, "local"),
        ({}, "local"),
    ],
)
def test_a_job_is_named_for_a_folder(environ, name):
    assert job_name(environ) == name


def test_every_cache_of_a_job_lies_below_its_root(tmp_path):
    caches = caches_of({"BUILDKITE_JOB_ID": "j", "HF_HOME": "/models"}, base=tmp_path)
    make(caches)
    root = tmp_path / "omni-j"
    assert dict(caches.variables) == {
        "TMPDIR": f"{root}/tmp",
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/torchinductor",
        "TRITON_CACHE_DIR": f"{root}/triton",
        "VLLM_CACHE_ROOT": f"{root}/vllm",
        "XDG_CACHE_HOME": f"{root}/xdg",
        "HF_DATASETS_CACHE": f"{root}/huggingface/datasets",
        "MIOPEN_USER_DB_PATH": f"{root}/miopen/db",
        "MIOPEN_CUSTOM_CACHE_DIR": f"{root}/miopen/cache",
    }
    assert all(Path(folder).is_dir() for folder in caches.variables.values())
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_vllm_omni7605_two_jobs_on_one_machine_share_no_miopen_database(tmp_path):
    """Parallel workers wrote one MIOpen database below HOME, and it broke."""
    one, other = (
        caches_of({"BUILDKITE_JOB_ID": name}, base=tmp_path).variables["MIOPEN_USER_DB_PATH"] for name in "ab"
    )
    assert one != other
    # parallel shards are jobs of their own, also where there is no job id
    assert caches_of({"BUILDKITE_PARALLEL_JOB": "0"}, base=tmp_path).root != (
        caches_of({"BUILDKITE_PARALLEL_JOB": "1"}, base=tmp_path).root
    )


def test_a_cache_that_the_job_chose_itself_is_kept_and_known(tmp_path):
    caches = caches_of({"TRITON_CACHE_DIR": "/shared", "HF_HOME": "/m"}, base=tmp_path)
    assert "TRITON_CACHE_DIR" not in caches.variables
    assert caches.kept == ("TRITON_CACHE_DIR",)


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface"),
        ({}, str(Path("~/.cache/huggingface").expanduser())),
        ({"HF_HOME": "/m"}, None),
    ],
)
def test_models_stay_where_they_would_have_been(tmp_path, environ, home):
    assert caches_of(environ, base=tmp_path).variables.get("HF_HOME") == home


def test_a_root_of_somebody_else_or_no_folder_is_refused(tmp_path, monkeypatch):
    caches = caches_of({"BUILDKITE_JOB_ID": "j"}, base=tmp_path)
    (tmp_path / "elsewhere").mkdir()
    caches.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GuardError, match="is not a folder of this user"):
        make(caches)
    caches.root.unlink()
    caches.root.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(GuardError, match="is not a folder of this user"):
        make(caches)


def test_a_place_that_cannot_be_written_is_a_guard(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(GuardError, match="cannot be made: Not a directory; set TMPDIR"):
        make(caches_of({"BUILDKITE_JOB_ID": "j"}, base=tmp_path / "file"))


SHOW = "import os, sys; print(os.environ['MIOPEN_USER_DB_PATH'], flush=True); sys.stdin.read()"


@pytest.fixture
def job(tmp_path):
    """The environment of a ROCm job with its own folders."""
    environ = {
        "PATH": os.environ["PATH"],
        "BUILDKITE_JOB_ID": "j",
        "HF_HOME": "/m",
        "PYTHONPATH": str(tmp_path),
    }
    caches = caches_of(environ, base=tmp_path)
    make(caches)
    return {**environ, **caches.variables, **for_each_process(caches, environ)}


def start(job) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SHOW], env=job, stdin=pipe, stdout=pipe, text=True)


def test_vllm_omni7605_processes_side_by_side_have_a_database_each(job):
    """Parallel workers of one job broke the MIOpen database that they shared."""
    folder = job["MIOPEN_USER_DB_PATH"]
    with start(job) as one, start(job) as other:
        found = {child.stdout.readline().strip() for child in (one, other)}
        assert found == {f"{folder}/0", f"{folder}/1"}
        assert all(Path(path).is_dir() for path in found)
        for child in (one, other):
            child.stdin.close()
    # one after another they share what the first has learnt
    for _ in range(2):
        with start(job) as child:
            assert child.stdout.readline().strip() == f"{folder}/0"
            child.stdin.close()


def test_a_child_process_is_given_a_database_beside_its_parents(job):
    nested = "import os, subprocess, sys; print(os.environ['MIOPEN_USER_DB_PATH'], flush=True)\n"
    script = nested + f"subprocess.run([sys.executable, '-c', {nested!r}])"
    done = subprocess.run([sys.executable, "-c", script], env=job, capture_output=True, text=True, check=True)
    assert [line.rpartition("/")[2] for line in done.stdout.split()] == ["0", "1"]


def test_a_startup_module_of_the_image_is_read_too(job, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.from_the_image = True\n")
    script = "import sys, os; print(sys.from_the_image, os.environ['MIOPEN_USER_DB_PATH'])"
    done = subprocess.run(
        [sys.executable, "-c", script], env=job, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("True "), done.stderr
    assert done.stderr == ""


def test_a_place_that_cannot_be_written_stops_no_python(job, tmp_path):
    (tmp_path / "file").touch()
    broken = {**job, "OMNI_MIOPEN_SLOTS": str(tmp_path / "file")}
    done = subprocess.run(
        [sys.executable, "-c", "print(1)"], env=broken, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_database_that_the_job_chose_is_left_alone(tmp_path):
    environ = {"MIOPEN_USER_DB_PATH": "/mine"}
    assert for_each_process(caches_of(environ, base=tmp_path), environ) == {}
