"""The messages of a job and its checkpoints (JobProto and so on) and their enums, of the runner's own job.proto."""

from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

from singa.engine import _job

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_job.descriptor())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "singa.job_pb2", globals())
