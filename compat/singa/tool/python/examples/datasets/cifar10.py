"""See singa.datasets.cifar10."""

from singa.datasets.cifar10 import build, load_data

__all__ = ["build", "load_data"]

if (
    __name__ == "__main__"
):  # bin/singa-run.sh -exec tool/python/examples/datasets/cifar10.py creates the files that job.conf reads
    build()
