"""The messages of a checkpoint; see singa.job_pb2."""

from singa.job_pb2 import DESCRIPTOR, BlobProto, BlobProtos  # noqa: F401
