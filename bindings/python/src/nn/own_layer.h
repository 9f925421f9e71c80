// Layers written in Python that run as layers of a net.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "pleiad/nn/layer.h"

namespace pleiad::python {

/// A layer that calls `object`, which has the protocol of pleiad.nn.OwnLayer (bindings/python/pleiad/nn/own.py).
/// Call it with the GIL held. An exception that the object raises passes through the net and the trainer unchanged.
[[nodiscard]] nn::LayerPtr own_layer(nanobind::object object, const nn::LayerFields& options);

}  // namespace pleiad::python
