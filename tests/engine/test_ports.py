"""The TCP ports that the processes of a job open, and their addresses."""

import os
import re

import pytest
from hosts import Network, need_root
from jobs import Job

LISTENS = "0A"
LOOPBACK = "0100007F"


def listening(pid):
    """Returns the addresses, as hexadecimal text, of the TCP sockets on which a process listens."""
    files = f"/proc/{pid}/fd"
    mine = set()
    for name in os.listdir(files):
        try:
            mine.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"{files}/{name}")))
        except FileNotFoundError:
            pass
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == LISTENS and fields[9] in mine:
                    found.append(fields[1].split(":")[0])
    return sorted(found)


@pytest.mark.parametrize("split", [None, "2"], ids=["shared memory", "messages"])
def test_a_job_on_one_machine_opens_no_port_to_the_network(pleiad, build_dir, tmp_path, split):
    env = {"PLEIAD_SPLIT_HOSTS": split} if split else {}
    program = build_dir / "bin" / "process"
    job = Job([pleiad, "launch", "--mpi", "-n", 2, program, "late", tmp_path / "come"], env=env)
    try:
        job.read_until(lambda job: sum("pid" in line for line in job.objects()) == 2)
        pids = [int(line["pid"]) for line in job.objects() if "pid" in line]
        for pid in pids:
            assert set(listening(pid)) <= {LOOPBACK}, listening(pid)
            assert bool(listening(pid)) == bool(split)
        (tmp_path / "come").touch()
        assert job.finish() == 0, job.text()
    finally:
        job.close()


def test_a_rank_listens_only_at_the_address_at_which_other_hosts_reach_it(build_dir, tmp_path):
    need_root()
    network = Network(2, tmp_path)
    try:
        job = Job(network.command(2, build_dir / "bin" / "process", "late", tmp_path / "come"))
        job.read_until(lambda job: sum("pid" in line for line in job.objects()) == 2, seconds=60)
        for line in job.objects():
            if "pid" not in line:
                continue
            found = listening(int(line["pid"]))
            # Open MPI's own port cannot be bound to an address: docs/cluster.md.
            assert f"{line['rank'] + 1:02X}004D0A" in found, found
            assert sum(address.strip("0") == "" for address in found) <= 2, "one of IPv4 and one of IPv6, by Open MPI"
        (tmp_path / "come").touch()
        assert job.finish() == 0, job.text()
    finally:
        network.remove()
