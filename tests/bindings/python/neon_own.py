"""User-defined layers in the engine's net, on any number of ranks: they have the values, rule, order of samples and
checkpoints of neon's own layers. The first block is the document's.
"""

import sys
import tempfile
from pathlib import Path

import numpy
from neon_forms_data import Pixels  # noqa: F401  registers the data set

import neon
import pleiad
from neon.layers import ActivationLayer, FCLayer, FCLayerDist, L2PoolingLayer, WeightLayer
from neon.models import GBDist
from neon.transforms import CrossEntropy, Tanh
from neon.util.distarray import comm

sys.argv = sys.argv[:1]


class DocumentedL2PoolingLayerDist(L2PoolingLayer):
    """The document's code."""

    def fprop(self, inputs_):
        inputs = self.input.get_fprop_view(inputs_)
        super(DocumentedL2PoolingLayerDist, self).fprop(inputs)  # noqa: UP008

    def bprop(self, error, inputs_, epoch, momentum):
        # redo-ing get_fprop_view for inputs, could cache for speed-up
        inputs = self.input.get_fprop_view(inputs_)
        super(DocumentedL2PoolingLayerDist, self).bprop(error, inputs, epoch, momentum)  # noqa: UP008


class ReturningL2PoolingLayerDist(DocumentedL2PoolingLayerDist):
    def bprop(self, error, inputs_, epoch, momentum):
        super().bprop(error, inputs_, epoch, momentum)
        self.berror = self.input.get_bprop_view(self.berror)


class PlainL2PoolingLayer(L2PoolingLayer):
    """A layer that does not use ranks."""

    def fprop(self, inputs):
        super().fprop(inputs)


class GainDist(WeightLayer):
    """A gain for each map, which all ranks share."""

    def initialize(self, in_shape, seed, dtype):
        self.weights = numpy.linspace(0.5, 1.5, in_shape[2]).astype(dtype)
        return super().initialize(in_shape, seed, dtype)

    def fprop(self, inputs):
        self.output = inputs * self.weights

    def bprop(self, error, inputs, epoch, momentum):
        self.berror = error * self.weights
        self.update([(error * inputs).sum(axis=(0, 1, 2))], momentum)


class Gain(GainDist):
    """The same layer on whole images."""


class Centred(ActivationLayer):
    """A layer that needs the whole image and does not know of tiles."""

    def fprop(self, inputs):
        self.output = inputs - inputs.mean(axis=(1, 2), keepdims=True)

    def bprop(self, error, inputs, epoch, momentum):
        self.berror = error - error.mean(axis=(1, 2), keepdims=True)


class OwnOutput(FCLayer):
    def fprop(self, inputs):
        super().fprop(inputs)


class OwnFCLayerDist(FCLayerDist):
    def fprop(self, inputs_):
        super().fprop(inputs_)


class SteeperTanh(Tanh):
    def apply_function(self, x):
        return numpy.tanh(2 * x)

    def apply_derivative(self, y):
        return 2 * (1 - y * y)


class SmoothedEntropy(CrossEntropy):
    """Cross-entropy with smoothed targets."""

    def apply_function(self, outputs, targets):
        return super().apply_function(outputs, 0.9 * targets + 0.1 / targets.shape[1])

    def apply_derivative(self, outputs, targets):
        return super().apply_derivative(outputs, 0.9 * targets + 0.1 / targets.shape[1])


class SteppingGBDist(GBDist):
    """A model with its own step, whose layers exchange data themselves."""

    def fprop(self, inputs):
        super().fprop(inputs)

    def bprop(self, targets, inputs, epoch, momentum):
        super().bprop(targets, inputs, epoch, momentum)


GB = """
!obj:neon.experiments.fit.FitExperiment {{
  dist_flag: {dist}, backend: &be !obj:neon.backends._numpy.Numpy64 {{rng_seed: 1}},
  datasets: [!obj:neon.datasets.Pixels {{dist_flag: {dist}, backend: *be}}],
  model: !obj:neon.models.{model} {{
    num_epochs: 2, num_initial_epochs: 1, num_pretrain_epochs: 1, batch_size: 5, pretraining: {pretraining},
    learning_rate: 0.01, pretrain_learning_rate: 0.01, momentum: 0.5, cost: !obj:neon.transforms.cross_entropy.CrossEntropy {{}},
    layers: [
      !obj:neon.models.layer.LocalFilteringLayer{suffix} {{name: f1, nofm: 2, fshape: [3, 2], stride: 1}},
      !obj:my.{pool} {{name: p1, ifmshape: [6, 7], fshape: [2, 3], stride: 1}},
      !obj:neon.models.layer.LCNLayer{suffix} {{name: l1, fshape: [3, 3]}},
      !obj:neon.models.layer.LayerWithNoBias{suffix} {{name: o, nout: 3, activation: !obj:neon.transforms.softmax.Softmax {{}}}},
    ],
  }},
}}"""

CNN = """
!obj:neon.experiments.fit.FitExperiment {{
  dist_flag: {dist}, backend: &be !obj:neon.backends._numpy.Numpy64 {{rng_seed: 1, deterministic: {deterministic}}},
  datasets: [!obj:neon.datasets.Pixels {{dist_flag: {dist}, backend: *be}}],
  model: !obj:neon.models.convnet_dist.ConvnetDist {{
    num_epochs: 2, batch_size: 5, {rule}, {more}
    cost: !obj:my.{cost} {{}},
    layers: [
      !obj:neon.models.layer.ConvLayerDist {{name: c, nofm: 2, fshape: [3, 3], stride: 1, {rate}
        activation: !obj:my.{function} {{}}}},
      {layers}
      !obj:my.{pool} {{name: p, fshape: {pooled}}},
      !obj:my.{last} {{name: o, nout: 3, activation: !obj:neon.transforms.softmax.Softmax {{}}}},
    ],
  }},
}}"""

ADADELTA = "lrule_init: {type: adadelta, lr_params: {rho: 0.9, epsilon: 1e-4}}"
DECAY = (
    "lrule_init: {type: gradient_descent_momentum_weight_decay, lr_params: {learning_rate: 0.05, weight_decay: 0.1,"
    " momentum_params: {type: linear_monotone, initial_coef: 0.5, saturated_coef: 0.9, start_epoch: 0, saturate_epoch: 1}}}"
)


def run(text):
    made = neon.loads(text)
    made.model.tell = lambda epoch, cost: None
    made.run() if comm.open else (made.initialize(), made.model.fit(made.dataset))
    outputs = made.model.predict(made.dataset, "test")
    return [*sum(getattr(made.model, "pretrain_costs", []), []), *made.model.costs], outputs


def gb(pool, pretraining, dist=True, model="GBDist"):
    model, suffix = (f"gb_dist.{model}", "Dist") if dist else ("gb.GB", "")
    return GB.format(pool=pool, pretraining=pretraining, dist=dist, model=model, suffix=suffix)


def cnn(layers="", rule="learning_rate: 0.05", dist=True, **changed):
    words = {
        "last": "FCLayer",
        "more": "",
        "deterministic": False,
        "rate": "",
        "cost": "CrossEntropy",
        "function": "Tanh",
        "pool": "L2PoolingLayerDist",
        "pooled": "[2, 2], stride: 2",
    }
    return CNN.format(layers=layers, rule=rule, dist=dist, **(words | changed))


def same(found, expected, what):
    assert numpy.allclose(found[0], expected[0], rtol=1e-9), (what, found[0], expected[0])
    assert numpy.allclose(found[1], expected[1], rtol=1e-7, atol=1e-12), what


# Values of one process without Dist, computed on every rank separately: no session is open yet.
expected = {pretraining: run(gb("L2PoolingLayer", pretraining, dist=False)) for pretraining in (True, False)}
gains = {
    rule: run(cnn("!obj:my.Gain {name: g},", rule, dist=False)) for rule in ("learning_rate: 0.05", ADADELTA, DECAY)
}
plain = {rule: run(cnn("", rule, dist=False)) for rule in (ADADELTA, DECAY)}
overlapping = {"pooled": "[3, 3], stride: 1"}
pooled = run(cnn(dist=False, **overlapping))
centred = run(cnn("!obj:my.Centred {name: m},", dist=False))
scaled = run(cnn("", rate="learning_rate: 0.01,", dist=False))
others = [
    {"function": "SteeperTanh"},
    {"cost": "SmoothedEntropy"},
    {"last": "OwnFCLayerDist", "function": "SteeperTanh"},
]
changed = [run(cnn(dist=False, **words)) for words in others]
assert gains[ADADELTA][0] != gains[DECAY][0]
# The user's code has an effect.
assert len({round(values[0][0], 9) for values in [*changed, run(cnn(dist=False))]}) == 3
assert expected[True][0][0] > 0 and len(expected[True][0]) == 3

with pleiad.init(timeout=600):
    for pretraining, values in expected.items():
        for pool in (
            "L2PoolingLayerDist",
            "DocumentedL2PoolingLayerDist",
            "ReturningL2PoolingLayerDist",
            "PlainL2PoolingLayer",
        ):
            same(run(gb(pool, pretraining)), values, pool)
        for pool in ("L2PoolingLayerDist", "DocumentedL2PoolingLayerDist"):
            same(run(gb(pool, pretraining, model="SteppingGBDist")), values, ("step", pool))
    for rule, values in gains.items():
        for name in ("Gain", "GainDist"):
            same(run(cnn(f"!obj:my.{name} {{name: g}},", rule)), values, (name, rule))
    for rule, values in plain.items():  # a user-defined layer changes neither the rule nor the order of samples
        same(run(cnn("", rule, last="OwnOutput")), values, rule)
    # The windows reach into the neighbouring tiles, and the layer returns the error of the halo.
    same(run(cnn(pool="ReturningL2PoolingLayerDist", **overlapping)), pooled, "returned halo")
    same(run(cnn("!obj:my.Centred {name: m},")), centred, "centred")
    same(run(cnn("", last="OwnOutput", rate="learning_rate: 0.01,")), scaled, "rates of layers")

    for words, values in zip(others, changed, strict=True):
        same(run(cnn(**words)), values, words)

    # Checkpoints: these ranks save after one epoch, and train the next one from the file.
    folder = Path(comm.gather_texts(tempfile.mkdtemp())[0])
    once = cnn("!obj:my.GainDist {name: g},", ADADELTA, more=f"serialized_path: {folder}/saved,")
    run(once.replace("num_epochs: 2", "num_epochs: 1"))
    more = run(cnn("!obj:my.GainDist {name: g},", ADADELTA, more=f"deserialized_path: {folder}/saved,"))
    assert numpy.allclose(more[0], gains[ADADELTA][0][1:], rtol=1e-9)

    bits = run(cnn("!obj:my.GainDist {name: g},", deterministic=True))[0]
    assert numpy.allclose(bits, gains["learning_rate: 0.05"][0], rtol=1e-9)

    assert len(set(comm.gather_texts(str([value.hex() for value in bits])))) == 1
    if comm.rank == 0:
        print("layers of one's own work", [value.hex() for value in bits], flush=True)
