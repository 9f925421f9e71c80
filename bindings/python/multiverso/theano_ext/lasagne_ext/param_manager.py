"""All parameters of a Lasagne network in one table.

from multiverso.theano_ext.lasagne_ext import param_manager

manager = param_manager.LasagneParamManager(network)
...                                    # train
manager.sync_all_param()
"""

from typing import Any

import pleiad
from multiverso.theano_ext.flat import only_rank
from multiverso.theano_ext.param_manager import MVModelParamManager


class LasagneParamManager(MVModelParamManager):
    """For a network of Lasagne: its output layer, or a list of them."""

    def __init__(self, network: Any) -> None:
        self._start_network(network, None)

    def _start_network(self, network: Any, source: int | None) -> None:
        import lasagne

        self.network = network
        self._start(lasagne.layers.get_all_params(network), source)


class MVNetParamManager(LasagneParamManager):
    """The older form: the network starts with the values of the one process where `is_master_worker` is true, whichever
    it is."""

    def __init__(self, network: Any, is_master_worker: bool) -> None:
        masters = only_rank(is_master_worker)
        if len(masters) != 1:
            raise pleiad.InvalidArgument(
                "[MVNetParamManager] is_master_worker: expected true in exactly one process; "
                + (f"received true at the ranks {', '.join(map(str, masters))}" if masters else "received true in none")
            )
        self._start_network(network, masters[0])

    def update_all_param(self) -> None:
        """`sync_all_param` by its older name."""
        self.sync_all_param()
