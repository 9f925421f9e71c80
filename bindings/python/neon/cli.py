"""The command `neon`."""

import argparse
import importlib
import os
import re
import sys

import neon
import pleiad
from neon.experiments.fit import FitExperiment
from neon.util.distarray.global_array import comm
from neon.util.together import SharedError, together, words_of
from pleiad.errors import Error, OrderError, TimeoutError, TransportError
from pleiad.nn.same import expect_same_file


def main(words: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(
        "neon", description="Run an experiment: neon file.yaml, or mpirun -np 4 neon file.yaml for four ranks."
    )
    parser.add_argument("file", help="the experiment, as YAML (docs/neon.md)")
    parser.add_argument("-r", "--rng-seed", type=int, help="in place of the back end's")
    parser.add_argument(
        "-i",
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours whose classes the file uses; may be given several times",
    )
    parser.add_argument("-e", "--epochs", type=int, help="in place of the model's num_epochs")
    parser.add_argument("-p", "--predictions", help="a file for the test set's predicted classes")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the net first")
    parser.add_argument(
        "-d", "--deterministic", action="store_true", help="the same bits at every number of ranks; slow"
    )
    given = parser.parse_args(words)
    session = None
    try:
        session = pleiad.init()
        expect_same_file(session, given.file, epochs=given.epochs, deterministic=given.deterministic)
        together(lambda: _experiment(given)).run()
        session.shutdown()
    except SharedError as problem:  # all ranks have it, and are here
        if comm.rank == 0:
            print(f"neon: {problem}", file=sys.stderr)
        assert session is not None
        session.shutdown()
        return 1
    except Exception as problem:
        if session is None or _is_news(session, problem):
            if not isinstance(problem, Error | ImportError):
                raise
            print(f"neon: {problem}", file=sys.stderr)
        return 1
    except BaseException:
        if session is not None:
            session.leave()
        raise
    return 0


def _is_news(session: pleiad.Session, problem: Exception) -> bool:
    """Leaves the session. False where another rank tells this, or its end is what this rank met."""
    mine = words_of(problem)
    head = f"rank {comm.rank}: "
    first = session.leave(head + mine)
    if not first or first.startswith(head):
        return True
    if not re.match(r"rank \d+: ", first):  # the session's own words, which no rank has said that it will tell
        return isinstance(problem, TimeoutError) or comm.rank == 0
    return mine not in first and not isinstance(problem, OrderError | TransportError)


def _experiment(given: argparse.Namespace) -> FitExperiment:
    sys.path.insert(0, os.getcwd())
    for module in given.modules:
        importlib.import_module(module)
    experiment = neon.load(given.file)
    if not isinstance(experiment, FitExperiment):
        raise Error(f"{given.file}: expected an experiment; it describes {type(experiment).__name__}")
    if experiment.backend is None and (given.rng_seed is not None or given.deterministic):
        raise Error(f"{given.file}: it has no backend, whose seed and mode could be set")
    if given.rng_seed is not None:
        experiment.backend.rng_seed = given.rng_seed
    if given.deterministic:
        experiment.backend.deterministic = True
    if given.epochs is not None:
        experiment.model.num_epochs = given.epochs
    if given.predictions is not None:
        experiment.predictions = given.predictions  # type: ignore[attr-defined]
    if given.verbose:
        experiment.verbose = True
    return experiment
