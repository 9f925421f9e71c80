"""Neural nets and their training by Pleiad's C++ engine. The same script runs in one process or in many.

    import pleiad
    from pleiad import nn

    session = pleiad.init()  # one process, or one rank of `pleiad launch -n 2 python script.py`
    net = nn.Sequential([nn.Dense(128, "relu"), nn.Dense(10)], input=(784,), loss=nn.SoftmaxLoss())
    trainer = nn.Trainer(net, nn.SGD(0.1, momentum=0.9), batch=64)
    history = trainer.fit(images, labels, epochs=5, validation=(test_images, test_labels))
    history.plot("curves.png")

docs/nn_python.md shows each part by an example.
"""

from collections.abc import Sequence

from pleiad.nn import init, plot, schedules
from pleiad.nn.callbacks import Callback, CsvLog, EarlyStopping
from pleiad.nn.choices import Plan
from pleiad.nn.data import Dataset
from pleiad.nn.engine import _nn
from pleiad.nn.extras import (
    Accuracy,
    Argsort,
    Branch,
    Bridge,
    CsvOutput,
    Dummy,
    ImagePreprocess,
    RecordOutput,
    SumLoss,
)
from pleiad.nn.graph import Value
from pleiad.nn.history import History, Record
from pleiad.nn.indexed import Indexed
from pleiad.nn.keep_best import KeepBest
from pleiad.nn.layers import (
    LRN,
    Activation,
    BatchNorm,
    Concat,
    Convolution,
    Dense,
    Dropout,
    EuclideanLoss,
    Flatten,
    Layer,
    Loss,
    Pooling,
    SigmoidLoss,
    Slice,
    SoftmaxLoss,
    Split,
    Sum,
)
from pleiad.nn.local import (
    CrossMapPooling,
    LocalContrast,
    LocalConvolution,
)
from pleiad.nn.net import Net, load_net
from pleiad.nn.optimizers import SGD, AdaDelta, AdaGrad, Adam, AdaMax, AdamW, RMSProp
from pleiad.nn.own import OwnLayer, OwnLoss, OwnMetric, OwnParam
from pleiad.nn.params import Init, Param
from pleiad.nn.progress import Progress
from pleiad.nn.recurrent import (
    GRU,
    LSTM,
    RNN,
    CharRNN,
    Embedding,
    OneHot,
    RNNLabel,
    Text,
)
from pleiad.nn.schedules import Schedule
from pleiad.nn.sequential import Sequential
from pleiad.nn.stacks import (
    RBM,
    RBMStack,
    SparseStack,
    SparseStage,
)
from pleiad.nn.stores import Store, StoreSamples, open_dataset, open_store, read_mean, write_store
from pleiad.nn.stream import Stream
from pleiad.nn.tensorboard import EventLog, TensorBoard
from pleiad.nn.trainer import Trainer


def explain(
    net: Net,
    *,
    ranks: int = 2,
    batch: int = 64,
    plan: Plan = "data",
    split: Sequence[str] = (),
    grid: str = "auto",
    deterministic: bool = False,
) -> str:
    """Returns a text table of what each rank computes for a net, and of the bytes that a step exchanges; for a spatial plan
    also the grid. Arguments are those of `Trainer`."""
    return _nn.explain(net._core, plan, list(split), grid, ranks, batch, deterministic)


def threads() -> int:
    """Returns the number of threads that compute the nets of the calling thread."""
    return _nn.threads()


def set_threads(count: int) -> None:
    """Sets the number of threads that compute the nets of the calling thread. OMP_NUM_THREADS sets it for a process."""
    _nn.set_threads(count)


__all__ = [
    "Accuracy",
    "Activation",
    "AdaDelta",
    "AdaGrad",
    "AdaMax",
    "Adam",
    "AdamW",
    "Argsort",
    "BatchNorm",
    "Branch",
    "Bridge",
    "Callback",
    "CharRNN",
    "Concat",
    "Convolution",
    "CrossMapPooling",
    "CsvLog",
    "CsvOutput",
    "Dataset",
    "Dense",
    "Dropout",
    "Dummy",
    "EarlyStopping",
    "Embedding",
    "EuclideanLoss",
    "EventLog",
    "Flatten",
    "GRU",
    "History",
    "ImagePreprocess",
    "Indexed",
    "Init",
    "KeepBest",
    "LRN",
    "LSTM",
    "Layer",
    "LocalContrast",
    "LocalConvolution",
    "Loss",
    "Net",
    "OneHot",
    "OwnLayer",
    "OwnLoss",
    "OwnMetric",
    "OwnParam",
    "Param",
    "Pooling",
    "Progress",
    "RBM",
    "RBMStack",
    "RMSProp",
    "RNN",
    "RNNLabel",
    "Record",
    "RecordOutput",
    "SGD",
    "Schedule",
    "Sequential",
    "SigmoidLoss",
    "Slice",
    "SoftmaxLoss",
    "SparseStack",
    "SparseStage",
    "Split",
    "Store",
    "StoreSamples",
    "Stream",
    "Sum",
    "SumLoss",
    "TensorBoard",
    "Text",
    "Trainer",
    "Value",
    "explain",
    "init",
    "load_net",
    "open_dataset",
    "open_store",
    "plot",
    "read_mean",
    "schedules",
    "set_threads",
    "threads",
    "write_store",
]
