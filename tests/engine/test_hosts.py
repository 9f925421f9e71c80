"""Several hosts, as network namespaces: the conformance suite over a network, and failures of the network."""

import re
import time

import pytest
from hosts import Network, need_root
from jobs import Job
from test_conformance_mpi import passed


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


# Messages that name a silent host: its rank did not answer a request, or sends no message.
SILENT = re.compile(r"has not answered for|no message from")


def lines_of(job):
    return [line for line in job.objects() if "acknowledged" in line]


def adding(network, build_dir, monkeypatch, *, host_timeout, ranks=4, recovery=False):
    """Starts ranks that add until network.folder has a file `stop`. Returns the job once all of them add."""
    monkeypatch.setenv("PLEIAD_HOST_TIMEOUT", str(host_timeout))
    monkeypatch.setenv("PLEIAD_TIMEOUT", "600")
    job = Job(network.command(ranks, build_dir / "bin" / "hosts", network.folder, recovery=recovery))
    job.read_until(lambda job: sum("ready" in line for line in job.objects()) == ranks, seconds=60)
    return job


def wait_for(folder, what, ranks):
    """Waits until these ranks have written their files (tests/programs/hosts.cc)."""
    deadline = time.monotonic() + 300
    while missing := [rank for rank in ranks if not (folder / f"{what}-{rank}").exists()]:
        assert time.monotonic() < deadline, f"no {what} of ranks {missing}"
        time.sleep(0.05)


def exact(lines, ranks):
    """Checks that every acknowledged add was applied exactly once. Failed adds may have been applied or not."""
    assert len(lines) == ranks, lines
    for line in lines:
        assert line["ending"] == "", line
        assert line["all_acknowledged"] > 0
        assert line["all_acknowledged"] <= line["least"], line
        assert line["most"] <= line["all_acknowledged"] + line["all_failed"], line


def test_a_short_cut_of_the_cable_is_no_error_and_loses_nothing(network, build_dir, monkeypatch):
    hosts = network(2)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=300)
    wait_for(hosts.folder, "adds", range(4))
    hosts.cut(1)
    time.sleep(4)  # the length of the cut
    hosts.mend(1)
    (hosts.folder / "restored").touch()
    wait_for(hosts.folder, "goes", range(4))
    (hosts.folder / "stop").touch()
    job.finish(60)
    lines = lines_of(job)
    exact(lines, 4)
    assert [line["error"] for line in lines] == [""] * 4
    assert lines[0]["hosts"] == 2


def test_a_long_network_failure_is_an_error_that_names_the_host_and_calls_work_after_it(
    network, build_dir, monkeypatch
):
    hosts = network(2)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=5)
    wait_for(hosts.folder, "adds", range(4))
    hosts.cut(1)
    (hosts.folder / "broken").touch()
    wait_for(hosts.folder, "failed", range(4))
    hosts.mend(1)
    wait_for(hosts.folder, "again", range(4))
    (hosts.folder / "stop").touch()
    job.finish(60)
    lines = lines_of(job)
    exact(lines, 4)
    for line in lines:
        other = 1 - line["rank"] // 2
        assert f"on node{other}" in line["error"] and SILENT.search(line["error"]), line
        assert line["error_after"] < 5 + 60, line


def test_delay_and_loss_on_the_network_lose_nothing(network, build_dir, monkeypatch):
    hosts = network(2)
    hosts.disturb(delay=0.01, jitter=0.005, loss=0.02)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=300)
    hosts.lose_frames(6)
    (hosts.folder / "stop").touch()
    job.finish(90)
    lines = lines_of(job)
    exact(lines, 4)
    assert [line["error"] for line in lines] == [""] * 4


def test_a_host_that_is_killed_is_named_within_the_deadline(network, build_dir, monkeypatch):
    hosts = network(2)
    job = adding(hosts, build_dir, monkeypatch, host_timeout=5, recovery=True)
    wait_for(hosts.folder, "adds", range(4))
    hosts.kill(1, "hosts")
    (hosts.folder / "broken").touch()
    wait_for(hosts.folder, "failed", (0, 1))
    (hosts.folder / "stop").touch()
    # mpirun itself does not always notice the end of a job whose ranks died on another host.
    job.read_until(lambda job: len(lines_of(job)) == 2, seconds=60)
    job.close()
    lines = lines_of(job)
    assert [line["rank"] for line in sorted(lines, key=lambda line: line["rank"])] == [0, 1], job.text()
    for line in lines:
        assert "on node1" in line["error"], line
        assert line["error_after"] < 5 + 60, line
        assert line["ending"] != "", "collectives need the ranks that are gone"


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.full), pytest.param(4, marks=pytest.mark.full)])
def test_all_cases_pass_over_a_network(network, build_dir, count):
    job = network(count).run(4, build_dir / "bin" / "conformance", "--gtest_brief=1", timeout=400)
    told, cases = passed(job)
    assert told == 4 and cases > 60, (told, cases)


def test_the_litmus_cases_pass_over_a_network_of_four_hosts(network, build_dir):
    words = ["--gtest_brief=1", "--gtest_filter=*_Litmus.*:*_Exchange.*"]
    job = network(4).run(4, build_dir / "bin" / "conformance", *words, timeout=120)
    told, cases = passed(job)
    assert told == 4 and cases > 10, (told, cases)
