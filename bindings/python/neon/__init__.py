"""neon's experiments on Pleiad: YAML files that name a data set, a model and its layers, on one process or on a grid of them.

    neon examples/neon/mnist_cnn.yaml
    mpirun -np 4 neon examples/neon/mnist_distarray_cnn.yaml

docs/neon.md has the files' form, the classes, and how to distribute a model, layer or data set of your own.
"""

from neon.util.registry import Component, known, register
from neon.util.yaml_file import load, loads

__all__ = ["Component", "known", "load", "loads", "register"]
