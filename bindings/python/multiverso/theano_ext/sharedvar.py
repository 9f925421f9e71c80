"""Theano shared variables that all workers share.

    from multiverso.theano_ext import sharedvar

    W = sharedvar.mv_shared(value=numpy.zeros((784, 10), dtype="float32"), name="W", borrow=True)
    ...                                    # train: W is a shared variable like any other
    W.mv_sync()                            # or, for all of them: sharedvar.sync_all_mv_shared_vars()

Training starts with the values of worker 0.
"""

import copyreg
from functools import cache
from typing import Any

import pleiad
from multiverso import api
from multiverso.theano_ext import backend
from multiverso.theano_ext.flat import FlatTable


class MVSharedVariable:
    """Synchronizes a shared variable with a table of its size. It starts with the values of worker 0. Collective: all workers
    must wrap the same variables in the same order."""

    def __init__(self, svobj: Any) -> None:
        value = svobj.get_value(borrow=True) if hasattr(svobj, "get_value") else svobj
        if not (hasattr(svobj, "set_value") and hasattr(value, "dtype") and hasattr(value, "shape")):
            raise pleiad.InvalidArgument(
                f"[MVSharedVariable] expected a shared variable that holds an array; received {svobj!r} "
                f"({type(value).__name__})"
            )
        self._svobj = svobj
        self._table = FlatTable([value], name=svobj.name or "", where=f"mv_shared {svobj.name or ''}".strip())
        svobj.set_value(self._table.values[0].astype(svobj.dtype))

    def mv_sync(self) -> None:
        """Adds the change of the variable since the last call to the table, and sets the variable to the table's new values.
        On a synchronous server all workers must call it equally often."""
        (value,) = self._table.sync([self._svobj.get_value(borrow=True)])
        self._svobj.set_value(value.astype(self._svobj.dtype), borrow=True)


def mv_shared(*args: Any, **kwargs: Any) -> Any:
    """Creates a variable like `theano.shared`, with the same arguments, that also has `mv_sync()`.

    It starts with the values of worker 0, or, if those are all zero and those of exactly one other worker are not, with that
    worker's values. Collective: all workers must create the same variables in the same order. A pickle or copy of it is a plain
    shared variable.
    """
    api._session()  # raises before a variable is created if `init` was not called
    variable = backend.load().shared(*args, **kwargs)
    synced = MVSharedVariable(variable)
    plain: Any = type(variable)
    variable.__class__ = _with_sync(plain)
    variable._mv_shared = synced
    _forget_old_sessions()
    _shared_vars.append(synced)
    return variable


# Strong references in order of creation, because all workers must sync the same variables in the same order.
_shared_vars: list[MVSharedVariable] = []
mv_shared.shared_vars = _shared_vars  # type: ignore[attr-defined]  # Multiverso's name for it


def sync_all_mv_shared_vars() -> None:
    """Calls `mv_sync` of every variable that `mv_shared` created since `multiverso.init`."""
    api._session()
    _forget_old_sessions()
    for variable in _shared_vars:
        variable.mv_sync()


def _forget_old_sessions() -> None:
    session = api._session()
    _shared_vars[:] = [kept for kept in _shared_vars if kept._table.session is session]


@cache
def _with_sync(base: Any) -> Any:
    """Returns the class of a shared variable, extended by `mv_sync`."""

    class Synced(base):  # type: ignore[misc]
        def mv_sync(self) -> None:
            self._mv_shared.mv_sync()

        def clone(self, *args: Any, **kwargs: Any) -> Any:
            twin = super().clone(*args, **kwargs)  # the clone has the same storage
            twin._mv_shared = self._mv_shared
            return twin

        def __reduce_ex__(self, protocol: Any) -> Any:
            # The table belongs to this process, so a pickle contains a variable of the base class.
            state = {name: value for name, value in self.__dict__.items() if name != "_mv_shared"}
            return copyreg._reconstructor, (base, object, None), state  # type: ignore[attr-defined]

    Synced.mv_sync.__doc__ = MVSharedVariable.mv_sync.__doc__
    Synced.__name__, Synced.__qualname__, Synced.__module__ = base.__name__, base.__qualname__, base.__module__
    return Synced
