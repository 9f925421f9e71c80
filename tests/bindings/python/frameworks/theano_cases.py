"""Theano, or PyTensor if that is installed: shared variables, and the manager of a list of them."""

import copy
import os
import pickle
import types

import harness
import numpy
from harness import block, fails, same_everywhere

import multiverso as mv
import pleiad
from multiverso.theano_ext import backend, compat, sharedvar
from multiverso.theano_ext.param_manager import MVModelParamManager


def one_gpu_a_worker():
    """Runs the document's block, which comes before theano is imported. There is no GPU, so the case checks the flags
    and then sets those for a CPU.
    """
    given = os.environ.pop("THEANO_FLAGS")
    exec(block("multi_gpu"), {"os": os})
    assert os.environ["THEANO_FLAGS"] == f"floatX=float32,device=gpu{mv.worker_id()},lib.cnmem=1"
    mv.shutdown()
    os.environ["THEANO_FLAGS"] = ",".join(flag for flag in given.split(",") if "blas" not in flag)
    compat.prepare_theano()
    assert os.environ["THEANO_FLAGS"].endswith("blas.ldflags=-lopenblas")


one_gpu_a_worker()
theano = backend.load()
T = theano.tensor


def world():
    return mv.worker_id(), mv.workers_num()


def settle(sync_all=sharedvar.sync_all_mv_shared_vars):
    """Afterwards, all workers have all earlier adds."""
    sync_all()
    mv.barrier()
    sync_all()
    mv.barrier()


def the_document_s_blocks(sync):
    names = {"theano": theano, "numpy": numpy, "n_in": 4, "n_out": 3, "self": types.SimpleNamespace()}
    exec(block("theano_shared"), names)
    exec(block("theano_mv_shared"), names)
    plain, synced = names["self"].W, names["W"]
    assert synced.type == plain.type and synced.name == "W"
    assert (synced.get_value() == plain.get_value()).all()


def it_starts_with_the_master_s_values(sync):
    worker, _ = world()
    w = sharedvar.mv_shared(value=numpy.full((2, 3), 7 + worker, "float32"))
    assert (w.get_value() == 7).all()


def values_in_one_process_and_zeros_elsewhere(sync):
    worker, workers = world()
    for giver in range(workers):
        w = sharedvar.mv_shared(value=numpy.full(5, 3 if worker == giver else 0, "float32"))
        assert (w.get_value() == 3).all(), giver


def zeros_stay_where_several_others_have_values(sync):
    worker, workers = world()
    w = sharedvar.mv_shared(value=numpy.full(5, worker, "float32"))
    expected = 1 if workers == 2 else 0
    assert (w.get_value() == expected).all()


def mv_sync_sums_what_the_workers_changed(sync):
    worker, workers = world()
    w = sharedvar.mv_shared(value=numpy.ones((200, 200), "float32"), name="w")
    step = theano.function([], updates=[(w, w + numpy.float32(worker + 1))])
    for k in range(1, 4):
        step()
        if sync:
            w.mv_sync()
            assert same_everywhere(w.get_value())
        else:
            settle(w.mv_sync)
        assert (w.get_value() == 1 + k * workers * (workers + 1) / 2).all()


def it_acts_as_a_shared_variable(sync):
    w = sharedvar.mv_shared(numpy.arange(6, dtype="float32").reshape(2, 3), "w", borrow=True)
    x, y = T.matrix(dtype="float32"), T.matrix(dtype="float32")
    assert (theano.function([x], T.dot(x, w))(numpy.eye(2, dtype="float32")) == w.get_value()).all()
    assert theano.function([], y.sum(), givens={y: w})() == 15
    assert theano.function([x], T.dot(x, w), givens={w: w * 2})(numpy.ones((1, 2), "float32"))[0, 0] == 6
    theano.function([], updates=[(w, w - numpy.float32(0.5) * theano.grad((w**2).sum(), w))])()
    assert (w.get_value() == 0).all()
    w.set_value(numpy.ones((2, 3), "float32"))
    with fails((TypeError, ValueError), "."):
        w.set_value(["no numbers"])
    for other in (pickle.loads(pickle.dumps(w)), copy.copy(w), copy.deepcopy(w)):
        assert isinstance(other, type(theano.shared(numpy.ones((2, 3), "float32"))))
        assert not hasattr(other, "mv_sync") and (other.get_value() == 1).all()
    twin = w.clone()
    twin.mv_sync()
    assert twin.container is w.container


def all_variables_of_this_session_are_synced(sync):
    worker, workers = world()
    assert sharedvar._shared_vars == [] or world_is_new()
    a = sharedvar.mv_shared(numpy.zeros(3, "float32"))
    b = sharedvar.mv_shared(numpy.zeros((2, 2), "float64"))
    a.set_value(a.get_value() + 1)
    b.set_value(b.get_value() + worker)
    settle()
    assert (a.get_value() == workers).all() and (b.get_value() == workers * (workers - 1) / 2).all()
    assert len(sharedvar._shared_vars) == 2


def world_is_new():
    """Shared variables of earlier sessions do not count."""
    return all(kept._table.session is not mv.api._session() for kept in sharedvar._shared_vars)


def other_types_are_held_exactly(sync):
    _, workers = world()
    big = sharedvar.mv_shared(numpy.array([2.0**53 - 2, 1e-300]))
    count = sharedvar.mv_shared(numpy.array([2**60, 5], "int64"))
    half = sharedvar.mv_shared(numpy.array([1, 2], "float16"))
    count.set_value(count.get_value() + 1)
    half.set_value(half.get_value() + numpy.float16(0.5))
    settle()
    assert big.get_value().tolist() == [2.0**53 - 2, 1e-300]
    assert count.get_value().tolist() == [2**60 + workers, 5 + workers] and count.dtype == "int64"
    assert half.get_value().tolist() == [1 + workers / 2, 2 + workers / 2] and half.dtype == "float16"


def a_wrapped_variable_syncs(sync):
    _, workers = world()
    plain = theano.shared(numpy.zeros(4, "float32"))
    wrapped = sharedvar.MVSharedVariable(plain)
    plain.set_value(numpy.ones(4, "float32"))
    settle(wrapped.mv_sync)
    assert (plain.get_value() == workers).all()


def a_manager_has_one_table_for_all(sync):
    worker, workers = world()
    shapes = [(3, 2), (2,), (), (1, 4)]
    variables = [theano.shared(numpy.full(shape, worker + 1, "float32")) for shape in shapes]
    manager = MVModelParamManager(variables)
    assert all((v.get_value() == 1).all() for v in variables)
    for index, variable in enumerate(variables):
        variable.set_value(variable.get_value() + numpy.float32(index + 1))
    settle(manager.sync_all_param)
    for index, variable in enumerate(variables):
        assert variable.get_value().shape == shapes[index]
        assert (variable.get_value() == 1 + workers * (index + 1)).all()
    tables = mv.api._session().metrics()["tables"]
    assert len(tables) == 1, tables


class OwnModel(MVModelParamManager):
    def get_all_param_values(self):
        return list(self.model.values())

    def set_all_param_values(self, params):
        for name, value in zip(self.model, params):
            self.model[name] = value.copy()


def a_manager_for_a_model_of_one_s_own(sync):
    worker, workers = world()
    model = {"a": numpy.full(3, worker + 2.0, "float32"), "b": numpy.full((2, 2), worker + 5.0)}
    manager = OwnModel(model)
    assert (model["a"] == 2).all() and (model["b"] == 5).all()
    model["a"] += 1
    model["b"] += 1
    settle(manager.sync_all_param)
    assert (model["a"] == 2 + workers).all() and (model["b"] == 5 + workers).all()
    model["a"] = numpy.ones(4)
    with fails(pleiad.InvalidArgument, r"parameter 0: expected shape \(3,\), as at the start; received \(4,\)"):
        manager.sync_all_param()
    del model["a"]
    with fails(pleiad.InvalidArgument, "expected 2 parameters; received 1"):
        manager.sync_all_param()


def differences_are_summed_whatever_the_rule(sync):
    mv.shutdown()
    mv.init(sync=sync, updater="sgd", timeout=60)
    _, workers = world()
    w = sharedvar.mv_shared(numpy.zeros(3, "float32"))
    w.set_value(numpy.ones(3, "float32"))
    settle(w.mv_sync)
    assert (w.get_value() == workers).all()


def bad_input_is_refused_in_words(sync):
    with fails(pleiad.InvalidArgument, "expected a shared variable that holds an array; received"):
        sharedvar.mv_shared({"no": "array"})
    with fails(pleiad.InvalidArgument, "expected a shared variable that holds an array; received"):
        sharedvar.MVSharedVariable(3)
    with fails(pleiad.InvalidArgument, "expected parameters of real numbers; received one of complex64"):
        sharedvar.mv_shared(numpy.zeros(3, "complex64"))
    w = sharedvar.mv_shared(numpy.zeros(3, "float32"), name="w")
    w.set_value(numpy.zeros(4, "float32"))
    with fails(pleiad.InvalidArgument, r"mv_shared w.*expected shape \(3,\), as at the start; received \(4,\)"):
        w.mv_sync()


def workers_that_disagree_get_an_error(sync):
    worker, workers = world()
    if workers == 1:
        return
    with fails(pleiad.Error, "(?s)."):
        sharedvar.mv_shared(numpy.zeros(3 + worker, "float32"))


def without_init_there_is_an_error(sync):
    mv.shutdown()
    for call in (sharedvar.sync_all_mv_shared_vars, lambda: sharedvar.mv_shared(numpy.zeros(3))):
        with fails(pleiad.StateError, "multiverso is not started"):
            call()
    mv.init(sync=sync, timeout=60)


if __name__ == "__main__":
    harness.run(globals())
