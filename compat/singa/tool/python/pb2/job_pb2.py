"""The messages of a job; see singa.job_pb2."""

from singa.job_pb2 import *  # noqa: F403
from singa.job_pb2 import DESCRIPTOR  # noqa: F401
