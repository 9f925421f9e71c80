"""user_main.py creates the JobProto object and passes it to Driver::Train (lines 44 to 47)."""

import sys

from _report import report
from google.protobuf import text_format
from pb2 import job_pb2
from singa.driver import Driver

job = job_pb2.JobProto()
text_format.Parse(open("small.conf").read(), job)
d = Driver()
d.Init(sys.argv)
d.Train(job)
report(name=job.name)
