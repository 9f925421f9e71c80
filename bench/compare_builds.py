"""Compares the speed of two builds of this project: runs both alternately and prints one JSON line for each benchmark.

    .venv/bin/python bench/compare_builds.py ../before/build/release build/release --pairs 20
    .venv/bin/python bench/compare_builds.py OLD NEW --only nn tables

time_ratio is the median over the pairs of NEW's time / OLD's time: below 1 means that NEW is faster. spread is half the
interquartile range of these ratios. old_us and new_us are medians. Both builds need their benchmark programs (`make
benches`), and for nn their Python modules. The order within a pair alternates.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from measure import mpirun_words, spread

NETS = {"mlp": 64, "small": 32, "cnn": 100, "autoencoder": 100, "rbm": 100, "gru": 50}


def lines_of(command, environment=None):
    """Runs a benchmark program and returns {name: microseconds}."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {done.stderr.strip()[-2000:]}")
    found = {}
    for line in done.stdout.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            values = json.loads(line)
            found[(values["name"], values.get("procs", 1), values.get("size", 0))] = values["median_us"]
    return found


def tables(build):
    binary = build / "bin" / "bench_tables"
    found = lines_of([binary, "3"])
    for ranks in (2, 4):
        found |= lines_of(mpirun_words(ranks, binary, 3))
    return found


def messages(build):
    found = lines_of(mpirun_words(2, build / "bin" / "bench_messages", 3), {"PLEIAD_SPLIT_HOSTS": "2"})
    for ranks in (1, 2):
        found |= lines_of(mpirun_words(ranks, build / "bin" / "bench_sparse", 3))
    return found


def spatial(build):
    found = {}
    for ranks in (1, 2, 4):
        words = ["auto", 256, 4, 5, 0.0, "auto"]
        launch = [] if ranks == 1 else [build / "bin" / "pleiad", "launch", "-n", ranks]
        command = [str(word) for word in (*launch, build / "bin" / "bench_spatial", *words)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PLEIAD_LOG_LEVEL": "error"},
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
        found[("spatial_step", ranks, 256)] = json.loads(done.stdout.strip().splitlines()[-1])["step_us"]
    return found


class NetProcess:
    """A process that trains the nets of bench/nn.py with one build: it runs a block of steps when it is asked to."""

    def __init__(self, build, threads):
        environment = {**os.environ, "PYTHONPATH": str(build / "python"), "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve():
    """Answers requests for blocks of steps on standard input, until it ends."""
    import numpy
    from nn_more import MORE
    from nn_nets import NETS as CASES

    from pleiad import nn

    answers = sys.stdout
    steps = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["net"]
        if name not in steps:
            random = numpy.random.default_rng(1)
            case = (CASES | MORE)[name][0]()
            parameters = case.parameters(random)
            x, target = case.data(NETS[name], random)
            with contextlib.redirect_stdout(io.StringIO()):
                net = case.net(nn)
                for parameter, values in parameters.items():
                    net.parameters[parameter][:] = values
                trainer = nn.Trainer(net, case.optimizer(nn), batch=NETS[name])
                net.set_inputs({"x": x} if target is None else {"x": x, "target": target})
            steps[name] = (trainer, net, trainer._core.step)
        step = steps[name][2]
        start = time.perf_counter()
        for _ in range(request["steps"]):
            step()
        print(json.dumps((time.perf_counter() - start) * 1e6 / request["steps"]), file=answers, flush=True)


def compare(pairs, old, new, measure):
    """Calls measure(old) and measure(new) alternately and prints a line for each key of what they return."""
    times = collections.defaultdict(lambda: ([], []))
    for turn in range(pairs):
        sides = (old, new) if turn % 2 == 0 else (new, old)
        for side in sides:
            for key, microseconds in measure(side).items():
                times[key][side is new].append(microseconds)
    for (name, count, size), (olds, news) in times.items():
        if len(olds) != len(news):
            continue  # only one of the builds has this benchmark
        ratios = [after / before for before, after in zip(olds, news)]
        line = {"name": name, "procs": count, "size": size, "time_ratio": round(statistics.median(ratios), 3)}
        line |= {"spread": round(spread(ratios), 3), "old_us": round(statistics.median(olds), 3)}
        print(json.dumps(line | {"new_us": round(statistics.median(news), 3), "pairs": len(ratios)}), flush=True)


def compare_nets(pairs, old, new):
    for threads in (1, 2):
        servers = {build: NetProcess(build, threads) for build in (old, new)}
        for name, batch in NETS.items():
            for server in servers.values():
                server.ask(net=name, steps=3)
            steps = max(1, int(100_000 / min(server.ask(net=name, steps=3) for server in servers.values())))
            compare(
                pairs,
                old,
                new,
                lambda build, name=name, batch=batch, steps=steps: {
                    (f"nn_{name}_{threads}_threads", 1, batch): servers[build].ask(net=name, steps=steps)
                },
            )
        for server in servers.values():
            server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path, help="a build folder")
    parser.add_argument("new", type=pathlib.Path, help="another build folder")
    parser.add_argument("--pairs", type=int, default=20, help="number of times that the builds take turns")
    suites = {"tables": tables, "messages": messages, "spatial": spatial}
    parser.add_argument("--only", nargs="*", choices=[*suites, "nn"], default=[*suites, "nn"])
    options = parser.parse_args()
    old, new = options.old.resolve(), options.new.resolve()
    for name in options.only:
        if name == "nn":
            compare_nets(options.pairs, old, new)
        else:
            compare(options.pairs, old, new, suites[name])


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
