"""The i-th worker uses the i-th GPU (document 000, lines 189 to 196)."""

import os

from report import report

given = os.environ.get("THEANO_FLAGS")
import multiverso as mv

mv.init()
worker_id = mv.worker_id()
# NOTICE: To use multiple gpus, we need to set the environment before import theano.
if "THEANO_FLAGS" not in os.environ:
    os.environ["THEANO_FLAGS"] = "floatX=float32,device=gpu%d,lib.cnmem=1" % worker_id

# import theano after this
floatX = None
if given is not None:
    import theano

    floatX = theano.config.floatX
report(worker_id, flags=os.environ["THEANO_FLAGS"], floatX=floatX)
mv.shutdown()
