"""neon's experiments on Pleiad: YAML files that describe a dataset, a model and its layers. They run in one process or on a grid
of ranks.

    neon examples/neon/mnist_cnn.yaml
    pleiad launch -n 4 neon examples/neon/mnist_distarray_cnn.yaml

docs/neon.md describes the form of the files, the classes, and how to distribute a user-defined model, layer or dataset.
"""

from neon.util.registry import Component, known, register
from neon.util.yaml_file import load, loads

__all__ = ["Component", "known", "load", "loads", "register"]
