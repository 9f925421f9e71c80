"""Hosts that are network namespaces joined by a bridge, and mpirun on them. A test creates and removes all of it; this
needs root.
"""

import os
import pathlib
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import run_with_deadline


def need_root():
    """Skips the test, with a reason, on machines that cannot create namespaces."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: hosts as network namespaces need root")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.fail("iproute2 is not installed; tools/setup.sh base installs it", pytrace=False)
    trial = subprocess.run(["ip", "netns", "add", f"pl{os.getpid()}t"], capture_output=True, text=True)
    if trial.returncode != 0:
        pytest.skip(f"SKIPPED: this machine makes no network namespaces: {trial.stderr.strip()}")
    subprocess.run(["ip", "netns", "del", f"pl{os.getpid()}t"], check=True)


class Network:
    """`count` hosts node0, node1, ... with the addresses 10.77.0.1, 10.77.0.2, ..."""

    def __init__(self, count, folder):
        self.prefix = f"pl{os.getpid()}"
        self.names = [f"{self.prefix}h{i}" for i in range(count)]
        self.switch = f"{self.prefix}s"
        self.folder = folder
        self.slow = None  # the switch in user space, if it is used
        try:
            self.make()
        except BaseException:
            self.remove()
            raise

    def make(self):
        self.ip("netns", "add", self.switch)
        self.ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            self.ip("netns", "add", name)
            self.ip("-n", self.switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "net", "netns", name)
            self.ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
            self.give_address(i, name)
        self.agent = self.folder / "agent"
        self.agent.write_text(
            textwrap.dedent(f"""\
            #!/bin/sh
            # mpirun calls this script to start a process on another host: agent ADDRESS COMMAND...
            while [ "${{1#-}}" != "$1" ]; do shift; done
            host=$(( ${{1##*.}} - 1 ))
            shift
            exec ip netns exec {self.prefix}h$host unshare --uts sh -c "hostname node$host; $*"
            """)
        )
        self.agent.chmod(self.agent.stat().st_mode | stat.S_IXUSR)

    def give_address(self, i, name):
        self.ip("-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "net")
        for device in ("lo", "net"):
            self.ip("-n", name, "link", "set", device, "up")

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True, timeout=120)

    def cut(self, host):
        self.ip("-n", self.switch, "link", "set", f"port{host}", "down")

    def mend(self, host):
        self.ip("-n", self.switch, "link", "set", f"port{host}", "up")

    def disturb(self, *, delay, jitter, loss):
        """Delays the frames between all hosts by `delay` +- `jitter` seconds and drops the fraction `loss` of them:
        with the kernel's netem or, if it is missing, with a switch in user space.
        """
        for port in range(len(self.names)):
            netem = ["netem", "delay", f"{delay * 1e6:.0f}us", f"{jitter * 1e6:.0f}us", "loss", f"{loss * 100}%"]
            command = ["tc", "-n", self.switch, "qdisc", "replace", "dev", f"port{port}", "root", *netem]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if "kind is unknown" in done.stderr:
                self.replace_switch(delay, jitter, loss)
                return
            assert done.returncode == 0, done.stderr

    def replace_switch(self, delay, jitter, loss):
        for name in self.names:
            self.ip("-n", name, "link", "delete", "net")
        words = ["--delay", delay, "--jitter", jitter, "--loss", loss, *self.names]
        program = pathlib.Path(__file__).parent / "slow_network.py"
        self.slow = subprocess.Popen(
            ["ip", "netns", "exec", self.switch, sys.executable, program, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready, _, _ = select.select([self.slow.stdout], [], [], 120)
        assert ready and self.slow.stdout.readline() == "ready\n", "the switch in user space has not started"
        for i, name in enumerate(self.names):
            self.give_address(i, name)

    def lost_frames(self):
        """Returns the number of frames that the disturbed network has lost so far."""
        if self.slow is None:
            command = ["tc", "-n", self.switch, "-s", "qdisc", "show"]
            told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
            return sum(map(int, re.findall(r"^qdisc netem .*\n.*\(dropped (\d+),", told, re.M)))
        self.slow.stdin.write("lost?\n")
        self.slow.stdin.flush()
        ready, _, _ = select.select([self.slow.stdout], [], [], 120)
        assert ready, "the switch in user space has not answered"
        return int(self.slow.stdout.readline())

    def lose_frames(self, count):
        """Waits until this many more frames are lost."""
        enough = self.lost_frames() + count
        deadline = time.monotonic() + 600
        while (lost := self.lost_frames()) < enough:
            assert time.monotonic() < deadline, f"the network has lost {lost} frames, not {enough}"
            time.sleep(0.1)

    def kill(self, host, program):
        """Kills the processes of a host that run `program`, as a loss of its power would."""
        pids = subprocess.run(["ip", "netns", "pids", self.names[host]], capture_output=True, text=True, check=True)
        for pid in map(int, pids.stdout.split()):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().decode().split("\0")
                if words[0].endswith(f"/{program}"):
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def command(self, ranks, *words, recovery=False):
        """Returns the command that runs `ranks` ranks, spread evenly over the hosts."""
        each = ranks // len(self.names)
        hosts = ",".join(f"10.77.0.{i + 1}:{each}" for i in range(len(self.names)))
        flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host", hosts, "-n", ranks]
        flags += ["--mca", "plm_rsh_agent", self.agent, "--mca", "orte_keep_fqdn_hostnames", "1"]
        flags += ["--mca", "oob_tcp_if_include", "10.77.0.0/24", "--mca", "btl", "self,vader,tcp"]
        flags += ["--mca", "btl_tcp_if_include", "10.77.0.0/24"]
        for variable in os.environ:
            if variable.startswith("PLEIAD_"):
                flags += ["-x", variable]
        if recovery:
            flags.append("--enable-recovery")
        line = " ".join(f"'{word}'" for word in ["mpirun", *flags, *words])
        return ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", f"hostname node0; exec {line}"]

    def run(self, ranks, *words, timeout):
        return run_with_deadline(self.command(ranks, *words), timeout=timeout)

    def remove(self):
        if self.slow is not None:
            self.slow.kill()
            self.slow.communicate()
        for name in [*self.names, self.switch]:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
            for pid in pids.stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
