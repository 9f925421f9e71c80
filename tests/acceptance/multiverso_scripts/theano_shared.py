"""Shared variables of Theano (document 000, lines 75 to 111; document 001, lines 29 to 65)."""

import multiverso as mv

mv.init()

import numpy
import theano
import theano.tensor as T
from report import report

n_in, n_out = 6, 3
me, workers = mv.worker_id(), mv.workers_num()


class Before:
    """The script for one process."""

    def __init__(self):
        self.W = theano.shared(value=numpy.zeros((n_in, n_out), dtype=theano.config.floatX), name="W", borrow=True)


from multiverso.theano_ext import sharedvar

W = sharedvar.mv_shared(value=numpy.zeros((n_in, n_out), dtype=theano.config.floatX), name="W", borrow=True)
# Document 001: the wanted values in one process, zeros in the others.
wanted = numpy.arange(n_out, dtype=theano.config.floatX) + 1
b = sharedvar.mv_shared(
    value=wanted if mv.is_master_worker() else numpy.zeros(n_out, dtype=theano.config.floatX), name="b", borrow=True
)
# Document 000: only the master's values count.
c = sharedvar.mv_shared(value=numpy.full(n_out, me + 7, dtype=theano.config.floatX), name="c")

# mv_shared acts like theano.shared.
plain = Before().W
same_kind = (
    isinstance(W, type(plain)) and W.type == plain.type and W.name == plain.name and W.dtype == theano.config.floatX
)
initial = [x.get_value().tolist() for x in (W, b, c)]
mv.barrier()

# build the model
x = T.matrix("x", dtype=theano.config.floatX)
doubled = theano.function([x], T.dot(x, W) * 2)
# train the model: each worker adds its number plus one to W, and 1 to b
train = theano.function([], updates=[(W, W + (me + 1)), (b, b + 1)])
train()
before = doubled(numpy.eye(n_in, dtype=theano.config.floatX))[0, 0]

# When you are ready to add the delta of the variable to parameter
# server and sync the latest value, you can run this function
W.mv_sync()
after_own = float(W.get_value()[0, 0])  # own change at least
b_untouched = b.get_value().tolist()
mv.barrier()
W.mv_sync()
all_changes = W.get_value().tolist()

# If you want to sync all variables created by `sharedvar.mv_shared`,
# you can use this function. It will add the gradients (delta value)
# to the server and update the latest value from the server.
mv.barrier()
train()
sharedvar.sync_all_mv_shared_vars()
mv.barrier()
sharedvar.sync_all_mv_shared_vars()
final = [x.get_value().tolist() for x in (W, b, c)]
seen_by_graph = float(doubled(numpy.eye(n_in, dtype=theano.config.floatX))[1, 2])

# `add` and `get` can also be used to sync parameters without shared variables.
table = mv.ArrayTableHandler(n_out)
table.add(numpy.ones(n_out, dtype=theano.config.floatX))
mv.barrier()
added = table.get().tolist()

report(
    me,
    workers=workers,
    same_kind=bool(same_kind),
    initial=initial,
    before=float(before),
    after_own=after_own,
    b_untouched=b_untouched,
    all_changes=all_changes,
    final=final,
    seen_by_graph=seen_by_graph,
    added=added,
)
mv.shutdown()
