"""Adds and gets on a synchronous table, round after round, while one rank is killed at a random moment.

random_kill.py VICTIM MILLISECONDS KIND APPLY FOLDER kills rank VICTIM within that many milliseconds after the first
round. Every other rank writes its observation as JSON to FOLDER/RANK: the number of gets that returned, the index of
the first one that was not a complete round, and the errors of the call, of a later get, of a barrier and of the
shutdown.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy

import multiverso as mv
import pleiad

victim, moment, kind, apply = int(sys.argv[1]), float(sys.argv[2]) / 1000, sys.argv[3], sys.argv[4]
mv.init(sync=True)
workers, worker = mv.workers_num(), mv.worker_id()
if kind == "array":
    table = mv.ArrayTableHandler(70_000, apply=apply)  # three stripes
    ones = numpy.ones(70_000, numpy.float32)
else:
    table = mv.MatrixTableHandler(700, 100, apply=apply)
    ones = numpy.ones((700, 100), numpy.float32)


def die():
    time.sleep(moment)
    os.kill(os.getpid(), signal.SIGKILL)


def error_of(call):
    try:
        call()
    except pleiad.Error as problem:
        return str(problem)
    return None


seen, wrong = 0, None
error = None
try:
    while True:
        table.add(ones)  # the handle is dropped
        values = table.get()
        seen += 1
        if wrong is None and not (values == workers * seen).all():
            wrong = seen - 1
        if worker == victim and seen == 1:
            threading.Thread(target=die, daemon=True).start()
except pleiad.Error as problem:
    error = str(problem)
line = {"rank": worker, "seen": seen, "wrong": wrong, "error": error}
line["later"] = error_of(table.get)
line["barrier"] = error_of(mv.barrier)
line["shutdown"] = error_of(mv.shutdown)
Path(sys.argv[5], str(worker)).write_text(json.dumps(line))
