"""A build with PLEIAD_MPI=OFF: `pleiad launch` forms a world with it, and mpirun's processes say why they cannot. Only
`make build-without-mpi` runs this file, because the other tests have a build with MPI."""

import sys

from jobs import mpirun_words
from test_launchers import TORCH, TRAIN, process, said, script, shell_launcher, start  # noqa: F401  fixtures too


def test_the_build_has_no_module_for_mpi(build_dir):
    assert list((build_dir / "lib").glob("libpleiad.so*"))
    assert list(build_dir.rglob("libpleiad_mpi*")) == []


def test_pleiad_launch_forms_a_world(start, pleiad, process):  # noqa: F811
    job = start(pleiad, "launch", "-n", 2, process, "world")
    assert job.finish() == 0, job.text()
    assert said(job, "engine") == {0: "local", 1: "local"}
    assert said(job, "size") == {0: "2", 1: "2"}
    assert job.left() == {}


def test_pleiad_launch_trains_a_python_script(start, pleiad, tmp_path):  # noqa: F811
    job = start(pleiad, "launch", "-n", 2, sys.executable, script(tmp_path, TRAIN))
    assert job.finish() == 0, job.text()
    assert sorted(job.out) == ["rank 0 of 2 has 40.0", "rank 1 of 2 has 40.0"]


def test_variables_alone_form_a_world(start, process):  # noqa: F811
    job = start(*shell_launcher(TORCH, 2, f"{process} world"))
    assert job.finish() == 0, job.text()
    assert said(job, "size") == {0: "2", 1: "2"}, job.text()


def test_mpirun_gets_an_error_that_names_the_option(start, process):  # noqa: F811
    job = start(*mpirun_words(2), process, "start")
    job.finish()
    errors = [line["start"] for line in job.objects()]
    assert len(errors) == 2 and all("PLEIAD_MPI=OFF" in text and "pleiad launch" in text for text in errors), job.text()
