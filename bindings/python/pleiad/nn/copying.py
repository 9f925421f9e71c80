"""Copies of nets, by copy.deepcopy and pickle."""

import json
from typing import TYPE_CHECKING, Any

from pleiad.errors import StateError
from pleiad.nn.engine import _nn

if TYPE_CHECKING:
    from pleiad.nn.net import Net


def state_of(net: "Net") -> dict[str, Any]:
    """Returns the structure and the values of a net, without what training has computed since."""
    return {
        "text": net.text(),
        "seed": net._core.seed,
        "layers": dict(net._layers),
        "last": net._last,
        "own": dict(net._own),
        "values": net.state_dict(),
        "fixed": net.fixed,
    }


def restore(net: "Net", state: dict[str, Any]) -> None:
    """Makes a new object the net of `state_of`."""
    words = json.loads(state["text"])
    net._core = core = _nn.Net(words["name"], words["dtype"], state["seed"])
    net._inputs = {each["name"]: each["dtype"] for each in words["inputs"]}
    net._layers = state["layers"]
    net._last, net._own = state["last"], state["own"]
    for each in words["inputs"]:
        core.input(each["name"], each["shape"], each["dtype"])
    for each in words["layers"]:
        fields = list(each.get("options", {}).items())
        phases = each.get("phases", [])
        if each["name"] in net._own:
            core.add_own(each["name"], net._own[each["name"]], fields, each["inputs"], phases)
        else:
            core.add(each["name"], each["kind"], fields, each["inputs"], phases)
    shapes = {name: array.shape for name, array in {**net.parameters, **net.states}.items()}
    for name, values in state["values"].items():
        if values.shape != shapes[name]:
            raise StateError(
                f'net "{net.name}": expected all of "{name}", shape {shapes[name]}; the net holds a part of shape '
                f"{values.shape}, because its trainer splits it; copy trainer.whole_net()"
            )
    net.load_state_dict(state["values"], layout="pleiad")
    net.fix(*state["fixed"])
