"""Each form of the files of neon 0.4, compared with a reference in NumPy: the first three costs agree to 1e-9 in
float64. Arguments: the names of forms. Under a launcher, the ranks train together and each compares with the reference.
"""

import sys

import neon_reference as reference
import numpy
from neon_forms_data import Pixels  # noqa: F401  registers the data set

import neon
import pleiad
from neon.util.distarray import comm


def experiment(model, data="Pixels {}", backend="Numpy64", kind="fit.FitExperiment"):
    return neon.loads(f"""
!obj:neon.experiments.{kind} {{
  backend: &be !obj:neon.backends._numpy.{backend} {{rng_seed: 3, seterr_handling: {{all: warn}}}},
  datasets: [!obj:neon.datasets.{data}],
  model: !obj:neon.models.{model},
}}""")


def fields(**more):
    return ", ".join(f"{name}: {value}" for name, value in {"num_epochs": 3, "batch_size": 10, **more}.items())


CROSS = "!obj:neon.transforms.cross_entropy.CrossEntropy {}"
SQUARES = "!obj:neon.transforms.sum_squared.SumSquaredDiffs {}"


def activation(name):
    return f"!obj:neon.transforms.{name} {{}}"


LOGISTIC, SOFTMAX = activation("logistic.Logistic"), activation("softmax.Softmax")
TANH, RECTLIN, IDENTITY = activation("tanh.Tanh"), activation("rectified.RectLin"), activation("linear.Identity")
NORMAL = "{type: normal, loc: 0.0, scale: 0.1}"
UNIFORM = "{type: uniform, low: -0.2, high: 0.2}"
NODE = "{type: node_normalized, scale: 0.5}"


def layer(kind, name, pos, **more):
    words = ", ".join(
        f"{field}: {value}" for field, value in {"name": name, "backend": "*be", "pos": pos, **more}.items()
    )
    return f"!obj:neon.models.layer.{kind} {{{words}}}"


def started(made):
    """Returns the initial parameters and the training samples, read on one process."""
    epochs, made.model.num_epochs = made.model.num_epochs, 0
    if hasattr(made.model, "pretraining"):
        made.model.pretraining = False
    made.initialize()
    made.model.fit(made.dataset)
    made.model.num_epochs = epochs
    values = {name: array.copy() for name, array in made.model.trainer.net.parameters.items()}
    data = made.dataset
    return values, data.inputs["train"].astype(float), numpy.eye(data.classes)[data.targets["train"]]


def dense(values, name, function, bias=True):
    return reference.Dense(values[f"{name}/weight"], values[f"{name}/bias"] if bias else None, function)


def block(epoch):
    """The momentum of the document's example, which changes at epoch 1."""
    return 0.99 if epoch < 1 else 0.9


BLOCK = "{type: linear_monotone, initial_coef: .99, saturated_coef: .9, start_epoch: 1, saturate_epoch: 1}"


def mlp_with_biases_as_inputs():
    def make():
        layers = [
            layer("Layer", "h", 0, nin=5, nout=6, activation=TANH, weight_init=NORMAL, learning_rate=0.02),
            layer("Layer", "o", 1, nin=7, nout=3, activation=LOGISTIC, weight_init=NODE),
        ]
        words = fields(batch_size=120, learning_rate=0.01, momentum=BLOCK, cost=CROSS, layers=f"[{', '.join(layers)}]")
        return experiment(f"mlp.MLP {{{words}}}", "iris.Iris {sample_pct: 100}")

    values, x, t = started(make())
    # Biases are initialised like other weights.
    assert values["h/weight"].shape == (6, 4) and abs(values["h/bias"]).max() > 0
    bound = 0.5 * numpy.sqrt(6 / (7 + 3))
    assert bound / 2 < abs(values["o/weight"]).max() <= bound
    nets = [dense(values, "h", "tanh"), dense(values, "o", "logistic")]
    rates = {id(nets[0]): 0.02, id(nets[1]): 0.01}
    rate = lambda epoch, layer: rates[id(layer)]  # noqa: E731
    return make, reference.train(nets, x, t, "logistic", 3, reference.Momentum(), rate, block)


def mlp_without_biases():
    def make():
        layers = [
            layer("LayerWithNoBias", "h", 0, nin=64, nout=6, activation=RECTLIN, weight_init=UNIFORM),
            layer("LayerWithNoBias", "o", 1, nin=6, nout=3, activation=IDENTITY, weight_init=UNIFORM),
        ]
        momentum = "{type: nesterov, coef: 0.5}"
        words = fields(learning_rate=0.05, momentum=momentum, cost=SQUARES, layers=f"[{', '.join(layers)}]")
        return experiment(f"mlp.MLP {{{words}}}")

    values, x, t = started(make())
    assert sorted(values) == ["h/weight", "o/weight"]
    nets = [dense(values, "h", "relu", False), dense(values, "o", "linear", False)]
    rule = reference.Momentum(nesterov=True)
    return make, reference.train(nets, x, t, "squares", 3, rule, lambda *_: 0.05, lambda epoch: 0.5)


def autoencoder():
    def make():
        layers = [
            layer("AELayer", "code", 0, nin=64, nout=5, activation=LOGISTIC, weight_init=UNIFORM),
            layer("AELayer", "again", 1, nin=6, nout=64, activation=LOGISTIC, weight_init=UNIFORM),
        ]
        words = fields(learning_rate=0.1, cost=CROSS, layers=f"[{', '.join(layers)}]")
        return experiment(f"autoencoder.Autoencoder {{{words}}}", kind="fit_predict_err.FitPredictErrorExperiment")

    values, x, _ = started(make())
    assert "code/bias" not in values and values["again/bias"].shape == (64,)
    nets = [dense(values, "code", "logistic", False), dense(values, "again", "logistic")]
    flat = x.reshape(len(x), -1)
    return make, reference.train(nets, flat, flat, "logistic", 3, reference.Momentum(), lambda *_: 0.1)


def with_batches(made):
    """Records the batch of each epoch, in order."""
    batches = []
    tell = made.model.tell

    def record(epoch, cost):
        batches.append(made.model.trainer.net._core.input_array("x").copy())
        tell(epoch, cost)

    made.model.tell = record
    return batches


def dbn(kind="dbn.DBN", stack=2):
    def make():
        layers = [
            layer("RBMLayer", "low", 0, nin=65, nout=8, activation=LOGISTIC, weight_init=NORMAL),
            layer("RBMLayer", "high", 1, nin=8, nout=4, activation=LOGISTIC, weight_init=NORMAL),
        ][:stack]
        words = fields(learning_rate=0.1, momentum=0.5, cost=SQUARES, layers=f"[{', '.join(layers)}]")
        return experiment(f"{kind} {{{words}}}")

    made = make()
    batches = with_batches(made)
    made.initialize()
    made.model.fit(made.dataset)
    net = made.model.machine(made.dataset, 0)
    costs = []
    seen = batches[:3]
    for index, name in enumerate(["low", "high"][:stack]):
        net = made.model.machine(made.dataset, index)  # the initial values
        values = [net.parameters[f"{name}/{each}"].copy() for each in ("weight", "hidden_bias", "visible_bias")]
        assert values[0].shape == [(7, 64), (3, 7)][index]
        costs += reference.machine(*values, seen, 0.1, 0.5, 3, name)
        sigmoid = reference.FUNCTIONS["logistic"]
        if index == 0:  # the inputs of the second machine
            seen = [sigmoid(batch @ values[0].T + values[1]) for batch in batches[3:]]
    return make, costs


def rbm():
    return dbn("rbm.RBM", 1)


def convnet(dist=""):
    def make():
        layers = [
            layer(f"ConvLayer{dist}", "conv", 0, nifm=1, nofm=3, ifmshape="[8, 8]", fshape="[3, 2]", stride=1,
                  weight_init=UNIFORM, activation=TANH, learning_rate=0.04),
            layer(f"MaxPoolingLayer{dist}", "pool", 1, nfm=3, ifmshape="[6, 7]", pshape="[2, 3]", stride=2),
            layer(f"LayerWithNoBias{dist}", "out", 2, nin=27, nout=3, weight_init=NORMAL, activation=SOFTMAX),
        ]  # fmt: skip
        words = fields(learning_rate=0.02, momentum=BLOCK, cost=CROSS, layers=f"[{', '.join(layers)}]")
        model = "convnet_dist.ConvnetDist" if dist else "mlp.MLP"
        return experiment(f"{model} {{{words}}}", f"Pixels {{dist_flag: {bool(dist)}}}")

    values, x, t = started(make())
    nets = [
        reference.Conv(values["conv/weight"], values["conv/bias"], "tanh"),
        reference.Pool((2, 3), 2, "max"),
        dense(values, "out", "softmax", False),
    ]
    rate = lambda epoch, layer: 0.04 if isinstance(layer, reference.Conv) else 0.02  # noqa: E731
    return make, reference.train(nets, x, t, "softmax", 3, reference.Momentum(), rate, block)


def convnet_dist():
    return convnet("Dist")


def gb(dist=""):
    def stage(n, maps, side):
        shape = f"[{side}, {side}]"
        after = f"[{side - 3 + 1}, {side - 2 + 1}]"
        pooled = f"[{side - 3 + 1 - 1}, {side - 2 + 1 - 1}]"
        return [
            layer(f"LocalFilteringLayer{dist}", f"f{n}", 3 * n, nifm=maps, nofm=2, ifmshape=shape, fshape="[3, 2]", stride=1,
                  weight_init=NORMAL, sparsity=0.05, pretraining=True, tied_weights=True, learning_rate=0.02,
                  pretrain_learning_rate=0.01),
            layer(f"L2PoolingLayer{dist}", f"p{n}", 3 * n + 1, nifm=2, ifmshape=after, fshape="[2, 2]", stride=1),
            layer(f"LCNLayer{dist}", f"l{n}", 3 * n + 2, nifm=2, ifmshape=pooled, fshape="[3, 3]", stride=1),
        ]  # fmt: skip

    def make():
        layers = [
            *stage(0, 1, 8),
            layer(f"LayerWithNoBias{dist}", "out", 3, nin=60, nout=3, weight_init=UNIFORM, activation=LOGISTIC),
        ]
        words = fields(
            num_pretrain_epochs=3,
            num_initial_epochs=1,
            pretraining=True,
            sparsity=0.3,
            pretrain_learning_rate=0.5,
            tied_weights=True,
            visualize=False,
            spot_check=False,
            learning_rate=0.05,
            momentum=BLOCK,
            pretrain_cost=SQUARES,
            cost=SQUARES,
            layers=f"[{', '.join(layers)}]",
        )
        model = "gb_dist.GBDist" if dist else "gb.GB"
        return experiment(f"{model} {{{words}}}", f"Pixels {{dist_flag: {bool(dist)}}}")

    values, x, t = started(make())
    local, pool = reference.Local(values["f0/weight"]), reference.Pool((2, 2), 1, "l2")
    first = reference.pretrain([], local, pool, x, 0.05, 0.01, 3)
    nets = [local, pool, reference.Lcn(3), dense(values, "out", "logistic", False)]
    rate = lambda epoch, layer: 0.02 if layer is local else 0.05  # noqa: E731
    only = lambda epoch: nets[-1:] if epoch < 1 else nets  # noqa: E731
    return make, first + reference.train(nets, x, t, "squares", 3, reference.Momentum(), rate, block, only=only)


def gb_dist():
    return gb("Dist")


def rules():
    """The form of neon 0.8: adadelta."""

    def make():
        rule = "{type: adadelta, lr_params: {rho: 0.9, epsilon: 1e-5}}"
        layers = [
            "!obj:layers.DataLayer {name: d, nout: 64}",
            f"!obj:layers.FCLayer {{name: o, nout: 3, weight_init: {UNIFORM}, lrule_init: {rule}, activation: {SOFTMAX}}}",
            f"!obj:layers.CostLayer {{name: c, ref_layer: d, cost: {CROSS}}}",
        ]
        listed = ", ".join(layers)
        return experiment(f"mlp.MLP {{{fields(layers=f'[{listed}]')}}}")

    values, x, t = started(make())
    return make, reference.train([dense(values, "o", "softmax")], x, t, "softmax", 3, reference.AdaDelta(0.9, 1e-5))


def decay():
    def make():
        schedule = "{type: step, ratio: 0.5, step_epochs: 2}"
        words = f"learning_rate: 0.1, weight_decay: 0.3, momentum_params: {{type: constant, coef: 0.8}}, schedule: {schedule}"
        rule = f"{{type: gradient_descent_momentum_weight_decay, lr_params: {{{words}}}}}"
        layers = f"[!obj:layers.FCLayer {{name: o, nout: 3, weight_init: {UNIFORM}, activation: {SOFTMAX}}}]"
        return experiment(f"mlp.MLP {{{fields(lrule_init=rule, cost=CROSS, layers=layers)}}}")

    values, x, t = started(make())
    rate = lambda epoch, layer: 0.1 * 0.5 ** ((epoch + 1) // 2)  # noqa: E731
    nets = [dense(values, "o", "softmax")]
    return make, reference.train(nets, x, t, "softmax", 3, reference.Momentum(), rate, lambda epoch: 0.8, 0.3)


FORMS = [
    mlp_with_biases_as_inputs,
    mlp_without_biases,
    autoencoder,
    rbm,
    dbn,
    convnet,
    convnet_dist,
    gb,
    gb_dist,
    rules,
]
FORMS.append(decay)

chosen = [form for form in FORMS if not sys.argv[1:] or form.__name__ in sys.argv[1:]]
expected = {form.__name__: form() for form in chosen}
with pleiad.init(timeout=600):
    for name, (make, costs) in expected.items():
        made = make()
        made.run()
        found = [*sum(getattr(made.model, "pretrain_costs", []), []), *made.model.costs]
        assert len(found) == len(costs) >= 3, (name, found, costs)
        assert numpy.allclose(found, costs, rtol=1e-9, atol=0), (name, found, costs)
        if comm.rank == 0:
            print(f"{name} agrees", flush=True)
