"""The command `neon`."""

import argparse
import importlib
import os
import sys

import neon
from neon.experiments.fit import FitExperiment
from pleiad.errors import Error


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
    given = parser.parse_args(words)
    try:
        sys.path.insert(0, os.getcwd())
        for module in given.modules:
            importlib.import_module(module)
        experiment = neon.load(given.file)
        if not isinstance(experiment, FitExperiment):
            raise Error(f"{given.file}: expected an experiment; it describes {type(experiment).__name__}")
        if given.rng_seed is not None and experiment.backend is not None:
            experiment.backend.rng_seed = given.rng_seed
        if given.epochs is not None:
            experiment.model.num_epochs = given.epochs
        if given.predictions is not None:
            experiment.predictions = given.predictions  # type: ignore[attr-defined]
        experiment.run()
    except ImportError as problem:
        print(f"neon: {problem}", file=sys.stderr)
        return 1
    except Error as problem:
        print(f"neon: {problem}", file=sys.stderr)
        return 1
    return 0
