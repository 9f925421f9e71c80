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
        "neon", description="Run an experiment: neon file.yaml, or pleiad launch -n 4 neon file.yaml on four ranks."
    )
    parser.add_argument("file", help="the experiment as a YAML file (docs/neon.md)")
    parser.add_argument("-r", "--rng-seed", type=int, help="overrides the seed of the back end")
    parser.add_argument(
        "-i",
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="a Python module whose classes the file uses; may be repeated",
    )
    parser.add_argument("-e", "--epochs", type=int, help="overrides num_epochs of the model")
    parser.add_argument("-p", "--predictions", help="write the predicted classes of the test set to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the net before training")
    parser.add_argument(
        "-d", "--deterministic", action="store_true", help="bit-identical results for any number of ranks; slow"
    )
    parser.add_argument("--version", action="version", version=f"pleiad {pleiad.__version__}")
    given = parser.parse_args(words)
    session = None
    try:
        session = pleiad.init()
        expect_same_file(session, given.file, epochs=given.epochs, deterministic=given.deterministic)
        together(lambda: _experiment(given)).run()
        session.shutdown()
    except SharedError as problem:  # raised on all ranks, which are all here
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
    """Leaves the session. Returns False if another rank reports this error, or if its death caused this rank's error."""
    mine = words_of(problem)
    head = f"rank {comm.rank}: "
    first = session.leave(head + mine)
    if not first or first.startswith(head):
        return True
    if not re.match(r"rank \d+: ", first):  # a message of the session, which no rank has announced that it will report
        return isinstance(problem, TimeoutError) or comm.rank == 0
    return mine not in first and not isinstance(problem, OrderError | TransportError)


def _experiment(given: argparse.Namespace) -> FitExperiment:
    sys.path.insert(0, os.getcwd())
    for module in given.modules:
        importlib.import_module(module)
    experiment = neon.load(given.file)
    if not isinstance(experiment, FitExperiment):
        raise Error(f"{given.file}: expected an experiment; {_generation(experiment)}")
    if given.epochs is not None and given.epochs < 0:
        raise Error(f"--epochs: expected 0 or more; received {given.epochs}")
    if experiment.backend is None and (given.rng_seed is not None or given.deterministic):
        raise Error(f"{given.file}: expected an experiment with a backend, whose seed and mode can be set; it has none")
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


def _generation(found: object) -> str:
    """Says what kind of file this is instead of an experiment, and what to do with it."""
    if isinstance(found, dict) and not any(isinstance(value, neon.Component) for value in found.values()):
        return (
            "it has no tags !obj:. Files of neon 0.4 to 0.8 are read; those of neon 1.0 and later are settings of Python"
            " scripts: write the model as an experiment (docs/neon.md)"
        )
    return f"it describes {type(found).__name__}"
