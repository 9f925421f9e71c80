"""See singa.datasets.mnist."""

from singa.datasets.mnist import build, load_data

__all__ = ["build", "load_data"]

if (
    __name__ == "__main__"
):  # bin/singa-run.sh -exec tool/python/examples/datasets/mnist.py creates the files that job.conf reads
    build()
