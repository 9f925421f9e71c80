"""The sparse auto-encoder: stages of local filters, L2 pooling and LCN, pre-trained one by one, then trained with labels."""

from typing import Any

import numpy

from neon.layers.dense import FCLayer
from neon.layers.local import LCNLayer, LocalFilteringLayer
from neon.layers.pooling import PoolingLayer
from neon.models.convnet import MLP, Array
from neon.params import rule_of
from neon.transforms import Softmax
from neon.util.distarray.global_array import GlobalArray, comm
from pleiad import nn
from pleiad.errors import InvalidArgument


class GB(MLP):
    """layers: LocalFilteringLayer, L2PoolingLayer, LCNLayer, any number of times; then an FCLayer. Stages are pre-trained for
    num_pretrain_epochs each, to reconstruct their input at a price of `sparsity` on what is pooled; then the last layer alone
    for num_initial_epochs; then all for num_epochs.

    On several ranks pre-training shares the batch out (every rank then holds whole images), and the training with labels cuts
    images by a grid."""

    fields = {
        "pretraining": True,
        "num_pretrain_epochs": 1,
        "num_initial_epochs": 1,
        "sparsity": 0.1,
        "pretrain_learning_rate": 0.01,
        "tied_weights": True,
    }
    ignored = frozenset({"visualize", "spot_check", "pretrain_cost"})

    pretraining: bool
    num_pretrain_epochs: int
    num_initial_epochs: int
    sparsity: float
    pretrain_learning_rate: float
    tied_weights: bool

    def stages(self) -> "list[nn.SparseStage]":
        *body, last = self.computing
        if not isinstance(last, FCLayer) or len(body) % 3 or not body:
            raise InvalidArgument(
                "GB: expected LocalFiltering, L2Pooling and LCN layers, as often as you like, then an FCLayer"
            )
        stages = []
        for i in range(0, len(body), 3):
            filters, pool, contrast = body[i : i + 3]
            if (
                not isinstance(filters, LocalFilteringLayer)
                or not isinstance(pool, PoolingLayer)
                or pool.kinds[pool.op] != "l2"
                or not isinstance(contrast, LCNLayer)
            ):
                names = ", ".join(type(each).__name__ for each in body[i : i + 3])
                raise InvalidArgument(f"GB: expected LocalFilteringLayer, L2PoolingLayer, LCNLayer; received {names}")
            side, stride = int(filters.fshape[0]), int(filters.stride)
            (window, _), (step, _) = pool.window()
            stages.append(nn.SparseStage(side, filters.nofm, stride, window, step, int(contrast.fshape[0])))
        return stages

    def _whole(self, dataset: Any) -> Array:
        """The training images in whole: gathered where ranks hold quads."""
        images: Array = dataset.inputs["train"]
        if not dataset.dist_flag or comm.size == 1:
            return images
        rows, columns = dataset.grid_shape()
        array = GlobalArray((len(images), *dataset.shape), grid=f"{rows}x{columns}", dtype=images.dtype)
        return array.gather(images)

    def fit(self, dataset: Any) -> None:
        if self.users_own:
            raise InvalidArgument("GB: its layers are computed by the engine; layers of your own are not")
        dataset.load()
        self.dataset = dataset
        seed = self.backend.seed if self.backend is not None else 0
        dtype = self.backend.element if self.backend is not None else "float32"
        stack = nn.SparseStack(
            dataset.shape,
            self.stages(),
            sparsity=self.sparsity,
            tied=self.tied_weights,
            classes=dataset.classes,
            dtype=dtype,
            seed=seed,
        )
        #: The mean cost of each epoch, by stage.
        self.pretrain_costs: list[list[float]] = []
        if self.pretraining and self.num_pretrain_epochs:
            images = self._whole(dataset)
            for history in stack.pretrain(
                images,
                epochs=self.num_pretrain_epochs,
                optimizer=nn.SGD(self.pretrain_learning_rate),
                batch=self.batch_size,
                seed=seed,
                progress=False,
            ):
                # Its reconstruction and the price of what is pooled.
                costs = [r.metrics for r in history.records if r.phase == "train"]
                self.pretrain_costs.append([sum(v for n, v in c.items() if n.endswith("loss")) for c in costs])
                if comm.rank == 0:
                    print(f"stage {len(self.pretrain_costs)}: cost {self.pretrain_costs[-1][-1]:.6g}", flush=True)
        net = stack.classifier()
        net.fix(*stack.layers)
        rule, _, _ = rule_of(self.rule_words(), self.rate_words(), self.momentum)
        spatial = comm.size > 1
        grid = self.grid or "x".join(map(str, dataset.grid_shape())) if spatial else "auto"
        self.trainer = nn.Trainer(net, rule, batch=self.batch_size, plan="spatial" if spatial else "data", grid=grid)
        samples = nn.Dataset(net, {"x": dataset.inputs["train"], "label": dataset.targets["train"]}, seed=seed)
        for epoch in range(self.num_initial_epochs + self.num_epochs):
            if epoch == self.num_initial_epochs:
                net.fix(*stack.layers, fixed=False)
            before = len(self.trainer.history.records)
            self.trainer.fit(samples, epochs=1, progress=False)
            self.costs += [r.metrics["loss"] for r in self.trainer.history.records[before:] if r.phase == "train"]
            self.tell(len(self.costs), self.costs[-1])

    def tell(self, epoch: int, cost: float) -> None:
        if comm.rank == 0:
            print(f"epoch {epoch} of {self.num_initial_epochs + self.num_epochs}: cost {cost:.6g}", flush=True)

    def predict(self, dataset: Any, name: str) -> Array:
        assert self.trainer is not None
        return Softmax().apply_function(numpy.asarray(self.trainer.predict(dataset.inputs[name])))
