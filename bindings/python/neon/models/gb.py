"""The sparse auto-encoder: stages of local filters, L2 pooling and LCN, pre-trained one by one, then trained with labels."""

from pathlib import Path
from typing import Any

import numpy

from neon.layers.dense import FCLayer
from neon.layers.local import LCNLayer, LocalFilteringLayer
from neon.layers.pooling import PoolingLayer
from neon.models.convnet import MLP, Array
from neon.params import rule_of
from neon.transforms import Softmax
from neon.util.distarray.global_array import GlobalArray, comm
from neon.util.together import together
from pleiad import nn
from pleiad.errors import InvalidArgument
from pleiad.nn import plot


class GB(MLP):
    """layers: LocalFilteringLayer, L2PoolingLayer, LCNLayer, any number of times; then an FCLayer. Stages are pre-trained for
    num_pretrain_epochs each, to reconstruct their input at a price of `sparsity` on what is pooled; then the last layer alone
    for num_initial_epochs; then all for num_epochs.

    On several ranks both cut images by a grid. visualize: a folder for pictures of each stage's filters and of what it
    makes of some images (matplotlib); true: "pictures"."""

    fields = {
        "pretraining": True,
        "num_pretrain_epochs": 1,
        "num_initial_epochs": 1,
        "sparsity": 0.1,
        "pretrain_learning_rate": 0.01,
        "tied_weights": True,
        "visualize": None,
    }
    ignored = frozenset({"spot_check", "pretrain_cost"})

    pretraining: bool
    num_pretrain_epochs: int
    num_initial_epochs: int
    sparsity: float
    pretrain_learning_rate: float
    tied_weights: bool
    visualize: Any

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

    def fit(self, dataset: Any) -> None:
        if self.users_own:  # with labels alone, layer by layer
            if self.pretraining and self.num_pretrain_epochs:
                raise InvalidArgument("GB: layers of your own are not pre-trained; set pretraining: False")
            super().fit(dataset)
            return
        dataset.load_together()
        self.dataset = dataset
        seed = self.backend.seed if self.backend is not None else 0
        dtype = self.backend.element if self.backend is not None else "float32"
        stack = together(
            lambda: nn.SparseStack(
                dataset.shape,
                self.stages(),
                sparsity=self.sparsity,
                tied=self.tied_weights,
                classes=dataset.classes,
                dtype=dtype,
                seed=seed,
            )
        )
        #: The mean cost of each epoch, by stage.
        self.pretrain_costs: list[list[float]] = []
        if self.pretraining and self.num_pretrain_epochs and not self.deserialized_path:
            stack.pretrain(
                dataset.inputs["train"],
                epochs=self.num_pretrain_epochs,
                optimizer=nn.SGD(self.pretrain_learning_rate),
                batch=self.batch_size,
                seed=seed,
                progress=False,
                each=self._stage_done,
                **self.plan_of(dataset),
            )
        net = stack.classifier()
        net.fix(*stack.layers)
        rule, _, _ = together(lambda: rule_of(self.rule_words(), self.rate_words(), self.momentum))
        self.trainer = self.trainer_of(net, rule, dataset)
        samples = nn.Dataset(net, {"x": dataset.inputs["train"], "label": dataset.targets["train"]}, seed=seed)
        if self.deserialized_path:
            self.trainer.load(self.deserialized_path)
        behind = self.trainer.step_number // max(1, len(dataset.targets["train"]) // self.batch_size)
        for epoch in range(behind, self.num_initial_epochs + self.num_epochs):
            if epoch >= self.num_initial_epochs:
                net.fix(*stack.layers, fixed=False)
            self._epoch(samples, epoch + 1)
        if self.serialized_path:
            self.trainer.save(self.serialized_path)

    def _stage_done(self, index: int, trainer: nn.Trainer) -> None:
        # Its reconstruction and the price of what is pooled.
        costs = [r.metrics for r in trainer.history.records if r.phase == "train"]
        self.pretrain_costs.append([sum(v for n, v in c.items() if n.endswith("loss")) for c in costs])
        if comm.rank == 0:
            print(f"stage {index + 1}: cost {self.pretrain_costs[-1][-1]:.6g}", flush=True)
        if self.visualize:
            self._pictures(index, trainer)

    def _pictures(self, index: int, trainer: nn.Trainer) -> None:
        """filtersN.png: the filters of some places, a row each; reconstructionN.png: what stage N takes of some images, and
        below it what its decoder makes of that again."""
        folder = Path("pictures" if self.visualize is True else str(self.visualize)).expanduser()
        shown = 12
        weight = numpy.asarray(trainer.whole_net().parameters[f"filter{index + 1}/weight"])
        source = "x" if index == 0 else f"contrast{index}"
        wanted = ["decoder"] if index == 0 else ["decoder", source]
        made = trainer.predict(self.dataset.inputs["train"][:shown], wanted)
        pairs = [self.dataset.inputs["train"][:shown] if index == 0 else made[source], made["decoder"]]
        lengths = [weight.shape[a] + weight.shape[a + 3] - 1 for a in (0, 1)]
        pairs = [self._joined(numpy.asarray(each), lengths) for each in pairs]

        def draw() -> None:
            if comm.rank != 0:
                return
            folder.mkdir(parents=True, exist_ok=True)
            places = numpy.linspace(0, len(weight) - 1, min(6, len(weight))).astype(int)
            some = numpy.concatenate([weight[place, place % weight.shape[1]] for place in places])
            plot.images(plot.filter_images(some), folder / f"filters{index + 1}.png", columns=weight.shape[2])
            images = [each if each.shape[3] in (1, 3) else each.mean(axis=3, keepdims=True) for each in pairs]
            both = numpy.concatenate([plot.filter_images(each) for each in images])
            plot.images(both, folder / f"reconstruction{index + 1}.png", columns=shown)

        together(draw)

    def _joined(self, local: Array, lengths: "list[int]") -> Array:
        """Whole images of this rank's tiles."""
        if comm.size == 1 or list(local.shape[1:3]) == lengths:
            return local
        rows, columns = self.dataset.grid_shape()
        shape = (len(local), *lengths, local.shape[3])
        return GlobalArray(shape, grid=self.grid or f"{rows}x{columns}", dtype=local.dtype).gather(local)

    def tell(self, epoch: int, cost: float) -> None:
        if comm.rank == 0:
            print(f"epoch {epoch} of {self.num_initial_epochs + self.num_epochs}: cost {cost:.6g}", flush=True)

    def predict(self, dataset: Any, name: str) -> Array:
        assert self.trainer is not None
        return Softmax().apply_function(numpy.asarray(self.trainer.predict(dataset.inputs[name])))
