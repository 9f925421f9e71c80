"""A field without an effect is refused with its line in the file before anything is computed. Every other field changes
the result.
"""

import numpy
from neon_forms_data import Pixels  # noqa: F401  registers the data set

import neon
from pleiad.errors import Error

CNN = """!obj:neon.experiments.fit_predict_err.FitPredictErrorExperiment {
  backend: &be !obj:neon.backends._numpy.Numpy64 {rng_seed: 0},
  datasets: [!obj:neon.datasets.Pixels {backend: *be}],
  model: !obj:neon.models.convnet.Convnet {
    num_epochs: 3,
    batch_size: &bs 10,
    learning_rate: &lr 0.05,
    momentum: {type: constant, coef: 0.5},
    cost: &cost !obj:neon.transforms.cross_entropy.CrossEntropy {
      scale: 1.0},
    layers: [
      !obj:neon.models.layer.ConvLayer {
        name: conv, batch_size: *bs,
        pos: 0,
        learning_rate: *lr,
        nifm: 1,
        nofm: 4,
        ifmshape: [8, 8],
        fshape: [3, 3],
        weight_init: {type: uniform, low: -0.3, high: 0.3},
        activation: !obj:neon.transforms.rectified.RectLeaky {
          slope: 0.01},
      },
      !obj:neon.models.layer.AveragePoolingLayer {
        name: pool,
        nifm: 4, stride: 2, fshape: [2, 2],
      },
      !obj:neon.models.layer.FCLayer {
        name: out,
        nout: 3,
        nin: 36,
        activation: !obj:neon.transforms.softmax.Softmax {},
      },
    ],
  },
}
"""

GB = """!obj:neon.experiments.fit.FitExperiment {
  backend: &be !obj:neon.backends._numpy.Numpy64 {rng_seed: 0},
  datasets: [!obj:neon.datasets.Pixels {}],
  model: !obj:neon.models.gb.GB {
    num_epochs: 2,
    num_initial_epochs: 1,
    batch_size: 5,
    pretraining: True,
    learning_rate: 0.05,
    momentum: 0.5,
    pretrain_cost: !obj:neon.transforms.sum_squared.SumSquaredDiffs {},
    cost: !obj:neon.transforms.cross_entropy.CrossEntropy {},
    layers: [
      !obj:neon.models.layer.LocalFilteringLayer {
        name: f, nofm: 2, stride: 1,
        fshape: [3, 3],
        weight_init: {type: uniform, low: -0.1, high: 0.1},
      },
      !obj:neon.models.layer.L2PoolingLayer {name: p, fshape: [2, 2], stride: 1},
      !obj:neon.models.layer.LCNLayer {
        name: l,
        fshape: [3, 3],
      },
      !obj:neon.models.layer.FCLayer {
        name: out,
        nout: 3,
        weight_init: {type: uniform, low: -0.1, high: 0.1},
        activation: !obj:neon.transforms.softmax.Softmax {},
      },
    ],
  },
}
"""


def costs(text):
    made = neon.loads(text, "file.yaml")
    made.initialize()
    made.model.tell = lambda epoch, cost: None
    made.model.fit(made.dataset)
    return [*sum(getattr(made.model, "pretrain_costs", []), []), *made.model.costs]


def changed(text, old, new):
    assert text.count(old) >= 1, old
    return text.replace(old, new, 1)


REFUSED = [
    (CNN, "nifm: 1,", "nifm: 2,", "nifm", "1 maps"),
    (CNN, "ifmshape: [8, 8],", "ifmshape: [8, 9],", "ifmshape", "8x8x1"),
    (CNN, "nifm: 4, stride", "nifm: 5, stride", "nifm", "4 maps"),
    (CNN, "nin: 36,", "nin: 37,", "nin", "36"),
    (CNN, "pos: 0,", "pos: 1,", "pos", "expected 0"),
    (CNN, "name: conv, batch_size: *bs,", "name: conv, batch_size: 11,", "batch_size", "the model has 10"),
    (CNN, "nout: 3,", "nout: 4,", "nout", "3 classes"),
    (CNN, "nofm: 4,", "nofm: 4, is_local: True,", "is_local", "LocalFilteringLayer"),
    (CNN, "nofm: 4,", "nofm: 4, local_conv: True,", "local_conv", "LocalFilteringLayer"),
    (CNN, "nofm: 4,", "nofm: 4, shared_bias: False,", "shared_bias", "bias per position"),
    (CNN, "nofm: 4,", "nofm: 4, use_biases: False, bias_init: 0.1,", "bias_init", "use_biases"),
    (CNN, "nofm: 4,", "nofm: 4.5,", "nofm", "4.5"),
    (CNN, "fshape: [3, 3],", "fshape: [3, 0],", "fshape", "[3, 0]"),
    (CNN, "nofm: 4,", "nofm: 4, weight_dtype: float32,", "weight_dtype", "float64"),
    (CNN, "learning_rate: &lr 0.05,", "learning_rate: &lr 0.05, lrule_init: {type: adadelta},", "learning_rate", "remove one"),
    (CNN, "learning_rate: *lr,", "learning_rate: -1,", "learning_rate", "-1"),
    (CNN, "low: -0.3", "lower: -0.3", "weight_init", '"lower"'),
    (CNN, "type: uniform", "type: unifrom", "weight_init", '"uniform"'),
    (CNN, "coef: 0.5}", "coef: 0.5, start_epoch: 3}", "momentum", "only coef"),
    (CNN, "coef: 0.5}", "initial_coef: 0.5, saturated_coef: 0.9}", "momentum", "only coef"),
    (CNN, "type: constant", "type: linear", "momentum", "linear_monotone"),
    (CNN, "scale: 1.0}", "scal: 1.0}", "scal", "no"),
    (CNN, "name: pool,", "name: pool, activation: !obj:neon.transforms.tanh.Tanh {},", "activation", "ActivationLayer"),
    (CNN, "name: pool,", "name: conv,", "name", "two layers"),
    (CNN, "batch_size: &bs 10,", "batch_size: &bs 0,", "batch_size", "1 or more; received 0"),
    (CNN, "batch_size: &bs 10,", "batch_size: &bs 11,", "batch_size", "expected at most 10, the number of training samples; received 11"),
    (CNN, "num_epochs: 3,", "num_epochs: -3,", "num_epochs", "0 or more; received -3"),
    (CNN, "{backend: *be}", "{backend: *be, sample_pct: 101}", "sample_pct", "101"),
    (CNN, "{backend: *be}", "{backend: *be, macro_batched: True}", "macro_batched", "has no"),
    (CNN, "_numpy.Numpy64 {rng_seed: 0}", "fixedpoint.FixedPoint {rng_seed: 0}", "FixedPoint", "fixed-point"),
    (CNN, "rng_seed: 0}", "rng_seed: 0, seterr_handling: {all: shout}}", "seterr_handling", "shout"),
    (GB, "cost: !obj:neon.transforms.cross_entropy.CrossEntropy {},", "cost: 5,", "cost", "5"),
    (GB, "num_initial_epochs: 1,", "num_initial_epochs: 3,", "num_initial_epochs", "2"),
    (GB, "fshape: [3, 3],\n      },\n      !obj:neon.models.layer.FC", "fshape: [3, 5],\n      },\n      !obj:neon.models.layer.FC",
     "fshape", "square"),
    (GB, "sum_squared.SumSquaredDiffs", "cross_entropy.CrossEntropy", "pretrain_cost", "SumSquaredDiffs"),
    (GB, "nout: 3,", "nout: 5,", "nout", "3 classes"),
    (GB, "momentum: 0.5,", "momentum: {type: linear_monotone, initial_coef: 0.5},", "momentum", "saturated_coef"),
]  # fmt: skip

for text, old, new, field, *words in REFUSED:
    wrong = changed(text, old, new)
    at = wrong.index(new)
    line = wrong[: at + max(new.find(f"{field}:"), 0)].count("\n") + 1
    try:
        costs(wrong)
    except Error as problem:
        told = str(problem)
        assert told.startswith(f"file.yaml:{line}: "), (new, line, told)
        assert "\n" not in told and field in told and all(word in told for word in words), (new, told)
        continue
    raise AssertionError(f"accepted: {new}")

EFFECT = [
    (CNN, "learning_rate: *lr,", "learning_rate: 0.01,"),
    (CNN, "nofm: 4,", "nofm: 4, use_biases: False,"),
    (CNN, "nofm: 4,", "nofm: 4, bias_init: 0.5,"),
    (CNN, "high: 0.3}", "high: 0.3, bias_init: 0.5}"),
    (CNN, "slope: 0.01}", "slope: 0.3}"),
    (CNN, "scale: 1.0}", "scale: 2.0}"),
    (CNN, "nout: 3,", "nout: 3, use_biases: False,"),
    (CNN, "coef: 0.5", "coef: 0.9"),
    (GB, "cross_entropy.CrossEntropy", "sum_squared.SumSquaredDiffs"),
    (GB, "softmax.Softmax", "logistic.Logistic"),
    (GB, "nout: 3,", "nout: 3, use_biases: False,"),
    (GB, "low: -0.1", "low: 0.0"),
    (GB, "low: -0.1, high: 0.1},\n        activation", "low: 0.0, high: 0.1},\n        activation"),
    (GB, "fshape: [3, 3],", "fshape: [4, 2],"),
    (GB, "momentum: 0.5,", "momentum: {type: linear_monotone, initial_coef: 0.5, saturated_coef: 0.9, start_epoch: 1, saturate_epoch: 1},"),
    (GB, "learning_rate: 0.05,", "learning_rate: 0.05, sparsity: 0.7,"),
    (GB, "name: f,", "name: f, tied_weights: False,"),
    (GB, "name: f,", "name: f, activation: !obj:neon.transforms.tanh.Tanh {},"),
]  # fmt: skip
usual = {CNN: costs(CNN), GB: costs(GB)}
assert len(usual[GB]) == 3  # one epoch of a stage and two with labels: num_epochs counts them all
for text, old, new in EFFECT:
    found = costs(changed(text, old, new))
    assert len(found) == len(usual[text]), new
    assert not numpy.allclose(found, usual[text], rtol=1e-9), f"no effect: {new}"
# neon's files for Iris describe a constant as a line with equal ends.
same = "initial_coef: 0.5, start_epoch: 5, saturate_epoch: 5, saturated_coef: 0.5}"
assert costs(changed(CNN, "coef: 0.5}", same)) == usual[CNN]
print("fields have their effect or are refused")
