"""The claims of the cluster guide, on hosts that are network namespaces: a hostfile, restarts, and four hosts with a
failing network.
"""

import re
import time

import pytest
from hosts import Network, need_root
from jobs import Job
from test_hosts import SILENT, adding, exact, lines_of, wait_for

# Longer than a host of a busy machine is ever silent, so that only the isolated host is named.
LONG = 30


@pytest.fixture
def network(tmp_path):
    need_root()
    made = []

    def make(count):
        made.append(Network(count, tmp_path))
        return made[0]

    yield make
    for one in made:
        one.remove()


def launch_words(hosts, pleiad, ranks, *words):
    """Runs `pleiad launch` on the first host. The environment contains the settings for mpirun that an administrator
    would make.
    """
    hostfile = hosts.folder / "hosts"
    each = ranks // len(hosts.names)
    hostfile.write_text("".join(f"10.77.0.{i + 1} slots={each}\n" for i in range(len(hosts.names))))
    settings = {
        "OMPI_MCA_plm_rsh_agent": hosts.agent,
        "OMPI_MCA_orte_keep_fqdn_hostnames": 1,
        "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24",
        "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
        "OMPI_MCA_btl": "self,vader,tcp",
    }
    line = " ".join(f"'{word}'" for word in [pleiad, "launch", "-n", ranks, "--hostfile", hostfile, *words])
    here = ["ip", "netns", "exec", hosts.names[0], "unshare", "--uts", "sh", "-c", f"hostname node0; exec {line}"]
    return here, {key: str(value) for key, value in settings.items()}


def test_a_hostfile_of_two_hosts_runs_the_ranks_there(network, pleiad, build_dir, run):
    command, env = launch_words(network(2), pleiad, 4, build_dir / "bin" / "first")
    done = run(*command, env=env, timeout=300)
    assert (done.returncode, done.stdout) == (0, "4 ranks made weights[0] = 2\n"), done.stderr


@pytest.mark.full
def test_a_job_on_two_hosts_resumes_from_its_last_snapshot_after_a_host_is_lost(network, pleiad, build_dir, tmp_path):
    hosts = network(2)
    folder = tmp_path / "job"
    folder.mkdir()
    lost = tmp_path / "lost"  # no rank takes the last step before it exists
    command, env = launch_words(
        hosts, pleiad, 4, "--restart", 10, "--grace", 5, build_dir / "bin" / "restart", folder, 300, lost
    )
    job = Job(command, env={**env, "PLEIAD_HOST_TIMEOUT": "60"})
    try:
        deadline = time.monotonic() + 300
        while not list(folder.glob("run/step-*/manifest.json")):
            assert time.monotonic() < deadline, "no snapshot was made"
            time.sleep(0.01)
        hosts.kill(1, "restart")
        lost.touch()
        assert job.finish(seconds=400) == 0, job.text()
        lines = job.objects()
        starts = [int(line["from"]) for line in lines if "from" in line]
        assert starts[0] == 0 and starts[-1] > 0, job.text()
        ends = [line["sums"] for line in lines if "sums" in line]
        assert len(ends) == 4 and len(set(ends)) == 1, job.text()
        assert any(re.search(r"restart 1 of 10", line) for line in job.err), job.text()
        assert any("on node1" in line or "on host node1" in line for line in job.err), job.text()
    finally:
        job.close()


@pytest.mark.full
def test_four_hosts_of_which_one_is_cut_off_for_long_lose_nothing(network, build_dir, monkeypatch):
    hosts = network(4)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=LONG)
    hosts.cut(2)
    (hosts.folder / "broken").touch()
    wait_for(hosts.folder, "failed", range(4))
    hosts.mend(2)
    wait_for(hosts.folder, "again", range(4))
    (hosts.folder / "stop").touch()
    job.finish(300)
    lines = lines_of(job)
    exact(lines, 4)
    assert lines[0]["hosts"] == 4
    for line in lines:
        # The isolated ranks name one of the others, and the others name the isolated ones.
        named = r"on node[013]\b" if line["rank"] == 2 else r"on node2\b"
        assert re.search(named, line["error"]) and SILENT.search(line["error"]), line


@pytest.mark.full
def test_four_hosts_with_delay_and_loss_lose_nothing(network, build_dir, monkeypatch):
    hosts = network(4)
    hosts.disturb(delay=0.005, jitter=0.002, loss=0.01)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=300)
    hosts.lose_frames(6)
    (hosts.folder / "stop").touch()
    job.finish(300)
    lines = lines_of(job)
    exact(lines, 4)
    assert [line["error"] for line in lines] == [""] * 4


@pytest.mark.full
def test_four_hosts_of_which_one_is_killed_name_it(network, build_dir, monkeypatch):
    hosts = network(4)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=LONG, recovery=True)
    hosts.kill(3, "hosts")
    (hosts.folder / "broken").touch()
    wait_for(hosts.folder, "failed", range(3))
    (hosts.folder / "stop").touch()
    job.read_until(lambda job: len(lines_of(job)) == 3, seconds=300)
    job.close()
    assert sorted(line["rank"] for line in lines_of(job)) == [0, 1, 2], job.text()
    for line in lines_of(job):
        assert "on node3" in line["error"], line
        assert line["ending"] != "", "collectives need the rank that is gone"
