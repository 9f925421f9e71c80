"""Keeps all parameters of a Lasagne network in one table.

    from multiverso.theano_ext.lasagne_ext import param_manager

    manager = param_manager.LasagneParamManager(network)
    ...                                    # train
    manager.sync_all_param()

Training starts with the values of worker 0.
"""

from typing import Any

import pleiad
from multiverso.theano_ext.flat import ranks_where
from multiverso.theano_ext.param_manager import MVModelParamManager


class LasagneParamManager(MVModelParamManager):
    """The parameter manager of a Lasagne network, given as its output layer or a list of output layers."""

    def __init__(self, network: Any) -> None:
        self._start_network(network, None)

    def _start_network(self, network: Any, source: int | None) -> None:
        import lasagne

        self.network = network
        self._start(lasagne.layers.get_all_params(network), source)


class MVNetParamManager(LasagneParamManager):
    """The older form: the network starts with the values of the one process in which `is_master_worker` is true, whichever
    process that is."""

    def __init__(self, network: Any, is_master_worker: bool) -> None:
        masters = ranks_where(is_master_worker)
        if len(masters) != 1:
            raise pleiad.InvalidArgument(
                "[MVNetParamManager] is_master_worker: expected true in exactly one process; "
                + (f"received true at the ranks {', '.join(map(str, masters))}" if masters else "received true in none")
            )
        self._start_network(network, masters[0])

    def update_all_param(self) -> None:
        """Does what `sync_all_param` does, under its older name."""
        self.sync_all_param()
