"""The files of examples/cluster on a cluster of one machine: the test starts munge, slurmctld and slurmd on loopback
and stops them at its end.
"""

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT, run_with_deadline

pytestmark = pytest.mark.full

FILES = ROOT / "examples" / "cluster"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.started = []
        self.env = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            # Root and small machines need these; a user on a cluster does not.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }
        self.node = socket.gethostname().split(".")[0]
        (folder / "spool").mkdir()
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (folder / "slurm.conf").write_text(
            f"""ClusterName=test
SlurmctldHost={self.node}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser={getpass.getuser()}
SlurmdUser={getpass.getuser()}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={self.node} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes={self.node} Default=YES State=UP
"""
        )
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                       f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
                       f"--seed-file={folder}/munged.seed")  # fmt: skip
            self.wait_for(lambda: (folder / "munge.socket").exists(), "munged's socket")
            self.start("slurmctld", "-D", "-c", "-f", folder / "slurm.conf")
            self.start("slurmd", "-D", "-c", "-N", self.node, "-f", folder / "slurm.conf")
            self.wait_for(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").stdout, "an idle node")
        except BaseException:
            self.stop()
            raise

    def start(self, name, *words):
        program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if program is None:
            pytest.fail(f"{name} is not installed; tools/setup.sh slurm installs it", pytrace=False)
        command = [program, *map(str, words)]
        with open(self.folder / f"{name}.out", "w") as log:
            self.started.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True))

    def wait_for(self, ready, what, seconds=300):
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.started):
                logs = [path for path in self.folder.iterdir() if path.suffix in (".log", ".out")]
                text = "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in logs)
                pytest.fail(f"no {what} after {seconds} s\n{text}", pytrace=False)
            time.sleep(0.1)

    def run(self, *words, timeout=60, cwd=None, **env):
        return run_with_deadline(words, timeout=timeout, env={**self.env, **env}, cwd=cwd)

    def batch(self, script, *words, cwd, **env):
        """Runs a script with sbatch. Returns its exit code and output."""
        done = self.run("sbatch", "--wait", "--parsable", FILES / script, *words, cwd=cwd, timeout=120, **env)
        outputs = list(Path(cwd).glob("*.out"))
        return done.returncode, "".join(path.read_text() for path in outputs) + done.stderr

    def stop(self):
        for process in reversed(self.started):
            process.terminate()
        for process in reversed(self.started):
            try:
                process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=120)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.stop()


def test_sbatch_runs_the_ranks_by_mpirun(slurm, build_dir, tmp_path):
    code, text = slurm.batch("train.sbatch", build_dir / "bin" / "first", cwd=tmp_path)
    assert (code, text) == (0, "4 ranks made weights[0] = 2\n")


def test_salloc_gives_mpirun_its_hosts(slurm, build_dir):
    done = slurm.run("salloc", "-n", 3, "--immediate=30", "mpirun", "--bind-to", "none", build_dir / "bin" / "first")
    assert done.returncode == 0, done.stderr
    assert "3 ranks made weights[0] = 1.5\n" in done.stdout


def test_a_job_resumes_from_its_last_snapshot_under_slurm(slurm, build_dir, tmp_path):
    path = f"{build_dir / 'bin'}:{os.environ['PATH']}"
    (tmp_path / "data").mkdir()
    words = [build_dir / "bin" / "restart", tmp_path / "data", 9]
    code, text = slurm.batch("restart.sbatch", *words, cwd=tmp_path, PATH=path)
    assert code == 0 and text.count('"sums"') == 4, text
    # Another job continues where the first one ended.
    code, text = slurm.batch("restart.sbatch", *words[:2], 12, cwd=tmp_path, PATH=path)
    assert code == 0 and '"from": "9"' in text, text


def test_srun_starts_a_program_of_one_process(slurm, build_dir):
    done = slurm.run("srun", "-n", 1, build_dir / "bin" / "first")
    assert (done.returncode, done.stdout) == (0, "1 ranks made weights[0] = 0.5\n"), done.stderr


def test_srun_starts_the_ranks_by_pmix_where_slurm_has_it(slurm, build_dir, tmp_path):
    kinds = slurm.run("srun", "--mpi=list")
    if "pmix" not in kinds.stdout + kinds.stderr:
        pytest.skip("this Slurm was built without PMIx")
    code, text = slurm.batch("direct.sbatch", build_dir / "bin" / "first", cwd=tmp_path)
    assert (code, text) == (0, "4 ranks made weights[0] = 2\n")


def test_tasks_of_srun_on_one_host_form_a_world_without_pmix(slurm, build_dir):
    done = slurm.run("srun", "--mpi=none", "-n", 4, build_dir / "bin" / "first")
    assert (done.returncode, done.stdout) == (0, "4 ranks made weights[0] = 2\n"), done.stderr


def test_tasks_of_srun_on_several_hosts_get_an_error_with_the_remedy(slurm, build_dir):
    words = ["env", "SLURM_STEP_NUM_NODES=2", build_dir / "bin" / "first"]
    done = slurm.run("srun", "--mpi=none", "-n", 4, *words)
    assert done.returncode != 0
    assert "srun has started 4 processes without PMIx" in done.stderr and "mpirun inside sbatch" in done.stderr
