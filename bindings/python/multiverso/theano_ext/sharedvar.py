"""Shared variables that all workers share.

    from multiverso.theano_ext import sharedvar

    W = sharedvar.mv_shared(value=numpy.zeros((784, 10), dtype="float32"), name="W", borrow=True)
    ...                                    # train: W is a shared variable like any other
    W.mv_sync()                            # or, for all of them: sharedvar.sync_all_mv_shared_vars()

They start with the master's values.
"""

import copyreg
from functools import cache
from typing import Any

import pleiad
from multiverso import api
from multiverso.theano_ext import backend
from multiverso.theano_ext.flat import FlatTable


class MVSharedVariable:
    """Keeps a shared variable and a table of its size in step. It starts with the master's values. Collective: all
    workers wrap the same variables in the same order."""

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
        """Adds what has changed in the variable since the last call to the table, and sets the variable to the table's
        latest value. On a synchronous server all workers call it the same number of times."""
        (value,) = self._table.sync([self._svobj.get_value(borrow=True)])
        self._svobj.set_value(value.astype(self._svobj.dtype), borrow=True)


def mv_shared(*args: Any, **kwargs: Any) -> Any:
    """`theano.shared` with the same arguments; what it returns is such a variable, and has `mv_sync()` as well.

    It starts with the master's values; where the master's are all zero and exactly one other worker's are not, with that
    worker's. Collective: all workers create the same variables in the same order. A pickle or a copy of it is a plain
    shared variable.
    """
    api._session()  # before the variable: without init there is none
    variable = backend.load().shared(*args, **kwargs)
    synced = MVSharedVariable(variable)
    plain: Any = type(variable)
    variable.__class__ = _with_sync(plain)
    variable._mv_shared = synced
    _forget_old_sessions()
    _shared_vars.append(synced)
    return variable


# Strong references, in the order of creation: all workers must sync the same variables in the same order.
_shared_vars: list[MVSharedVariable] = []
mv_shared.shared_vars = _shared_vars  # type: ignore[attr-defined]  # Multiverso's name for it


def sync_all_mv_shared_vars() -> None:
    """`mv_sync` of every variable that `mv_shared` made since `multiverso.init`."""
    api._session()
    _forget_old_sessions()
    for variable in _shared_vars:
        variable.mv_sync()


def _forget_old_sessions() -> None:
    session = api._session()
    _shared_vars[:] = [kept for kept in _shared_vars if kept._table.session is session]


@cache
def _with_sync(base: Any) -> Any:
    """The class of a shared variable, with `mv_sync`."""

    class Synced(base):  # type: ignore[misc]
        def mv_sync(self) -> None:
            self._mv_shared.mv_sync()

        def clone(self, *args: Any, **kwargs: Any) -> Any:
            twin = super().clone(*args, **kwargs)  # it has the same storage
            twin._mv_shared = self._mv_shared
            return twin

        def __reduce_ex__(self, protocol: Any) -> Any:
            # The table belongs to this process: what leaves it is a variable of the base.
            state = {name: value for name, value in self.__dict__.items() if name != "_mv_shared"}
            return copyreg._reconstructor, (base, object, None), state  # type: ignore[attr-defined]

    Synced.mv_sync.__doc__ = MVSharedVariable.mv_sync.__doc__
    Synced.__name__, Synced.__qualname__, Synced.__module__ = base.__name__, base.__qualname__, base.__module__
    return Synced
