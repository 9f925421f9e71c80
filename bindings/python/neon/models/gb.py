"""The sparse auto-encoder: stages of local filters, L2 pooling and LCN, pre-trained one by one, then trained with labels."""

from pathlib import Path
from typing import Any

import numpy

from neon.layers.base import Layer
from neon.layers.dense import FCLayer
from neon.layers.local import LCNLayer, LocalFilteringLayer
from neon.layers.pooling import PoolingLayer
from neon.models.convnet import MLP, Array
from neon.models.network import Network
from neon.models.own import Clock
from neon.params import Rule
from neon.transforms import SumSquaredDiffs
from neon.util.distarray.global_array import GlobalArray, comm
from neon.util.together import together
from pleiad import nn
from pleiad.nn import plot

Stage = tuple[LocalFilteringLayer, Layer, Layer]


class GB(MLP):
    """A model of stages, each a LocalFilteringLayer, an L2PoolingLayer and an LCNLayer, followed by a fully connected layer. Each
    stage is pre-trained for num_pretrain_epochs to reconstruct its input with a penalty of `sparsity` on the pooled values. Then
    follow num_epochs epochs with labels, of which the first num_initial_epochs train only the last layer.

    On several ranks a grid splits the images in both phases. visualize: folder for pictures of each stage's filters and
    reconstructions (needs matplotlib); true means "pictures". spot_check: print each stage's cost of one batch after it."""

    fields = {
        "pretraining": True,
        "num_pretrain_epochs": 1,
        "num_initial_epochs": 1,
        "sparsity": 0.1,
        "pretrain_learning_rate": 0.01,
        "pretrain_cost": None,
        "tied_weights": True,
        "visualize": None,
        "spot_check": False,
    }

    pretraining: bool
    num_pretrain_epochs: int
    num_initial_epochs: int
    sparsity: float
    pretrain_learning_rate: float
    pretrain_cost: Any
    tied_weights: bool
    visualize: Any
    spot_check: bool

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for field in ("num_pretrain_epochs", "num_initial_epochs"):
            if getattr(self, field) < 0:
                self.refuse(field, f"expected 0 or more; received {getattr(self, field)}")
        if "num_initial_epochs" in self.given and self.num_initial_epochs > self.num_epochs:
            self.refuse(
                "num_initial_epochs",
                f"expected 0 to num_epochs, {self.num_epochs}; received {self.num_initial_epochs}",
            )
        for field in ("sparsity", "pretrain_learning_rate"):
            self.number(field, field, getattr(self, field), 0)
        if self.pretrain_cost is not None and type(self.pretrain_cost) is not SumSquaredDiffs:
            self.refuse("pretrain_cost", f"expected SumSquaredDiffs; received {type(self.pretrain_cost).__name__}")
        if self.pretrain_cost is not None and self.pretrain_cost.scale != 1:
            self.pretrain_cost.refuse("scale", "scale pretrain_learning_rate instead")
        #: The mean cost of each epoch, by stage.
        self.pretrain_costs: list[list[float]] = []
        self.stages()

    def stages(self) -> "list[Stage]":
        *body, last = self.computing
        if not isinstance(last, FCLayer) or len(body) % 3 or not body:
            self.refuse(
                "layers",
                "expected LocalFiltering, L2Pooling and LCN layers, any number of times, then a fully connected one",
            )
        found: list[Stage] = []
        for i in range(0, len(body), 3):
            filters, pool, contrast = body[i : i + 3]
            if not isinstance(filters, LocalFilteringLayer):
                filters.refuse(
                    "name", f"a stage must start with a LocalFilteringLayer; received a {type(filters).__name__}"
                )
            if not isinstance(pool, PoolingLayer) or pool.kinds[pool.op] != "l2":
                pool.refuse("name", f"an L2PoolingLayer must follow the filters; received a {type(pool).__name__}")
            if not isinstance(contrast, LCNLayer):
                contrast.refuse("name", f"an LCNLayer must end a stage; received a {type(contrast).__name__}")
            found.append((filters, pool, contrast))
        return found

    def _train(self, dataset: Any) -> None:
        if not self.users_own:
            together(lambda: self._network(dataset))  # detects errors in the file before hours of pre-training
        learned: dict[str, Array] = {}
        if self.pretraining and self.num_pretrain_epochs and not self.deserialized_path:
            for index, stage in enumerate(self.stages()):
                if stage[0].pretraining is not False:
                    self._pretrain(dataset, index, learned)
        self._train_net(dataset, together(lambda: self._network(dataset)), self.num_epochs, self._fix, learned)

    def _fix(self, epoch: int, net: nn.Net) -> None:
        """Makes the first epochs train only the last layer."""
        for layer in self.computing[:-1]:
            names = [n for n in net.parameters if n.startswith((f"{layer.name}/", f"loss/{layer.name}."))]
            if names:
                net.fix(*names, fixed=epoch < self.num_initial_epochs)

    def _stage_network(self, dataset: Any, index: int) -> Network:
        """Returns stage `index` on top of the lower ones, which are fixed: decoder, reconstruction and sparsity penalty."""
        network = Network(self, f"stage{index + 1}", tuple(dataset.shape), dataset.grid_of())
        net, stages = network.net, self.stages()
        for stage in stages[:index]:
            for layer in stage:
                network.layer(layer)
        for name in net.parameters:
            net.fix(name)
        filters, pool, _ = stages[index]
        source = network.value
        tied = self.tied_weights if filters.tied_weights is None else filters.tied_weights
        network.scales = {}  # pre-training has its own learning rate
        network.layer(filters, apart=bool(tied))
        hidden = network.value
        size, stride = filters.window()
        height, width, channels = source.shape
        decoder = nn.LocalConvolution(
            channels,
            size,
            stride,
            weight=nn.Param("auto_uniform", norm=1),
            transposed=True,
            size=(height, width),
            tied=f"{filters.name}/weight" if tied else None,
            name="decoder",
        )
        again = net.add(decoder, hidden)
        if not tied:
            net.parameters["decoder/weight"][...] = net.parameters[f"{filters.name}/weight"]
        net.add(nn.EuclideanLoss(), again, source, name="reconstruction")
        network.value = hidden
        network.layer(pool)
        sparsity = self.sparsity if filters.sparsity is None else filters.sparsity
        net.add(nn.Layer("sum_loss", "sparsity", scale=float(sparsity)), network.value)
        network.out_shape = tuple(source.shape)
        return network

    def _pretrain(self, dataset: Any, index: int, learned: "dict[str, Array]") -> None:
        network = together(lambda: self._stage_network(dataset, index))
        net, filters = network.net, self.stages()[index][0]
        own = filters.pretrain_learning_rate
        rule = Rule(rate=self.pretrain_learning_rate if own is None else own)
        steps = self._steps(dataset)
        for running in network.running:
            running.clock = Clock(rule, steps)
        trainer = self.trainer_of(net, rule, dataset, plan=self.engine_plan(dataset))
        self.take(net, learned)
        samples = nn.Dataset(net, {"x": dataset.inputs["train"]}, seed=self.seed)
        trainer.fit(samples, epochs=self.num_pretrain_epochs, drop_last=True, progress=False)
        learned[f"{filters.name}/weight"] = net.parameters[f"{filters.name}/weight"].copy()
        costs = [r.metrics for r in trainer.history.records if r.phase == "train"]
        self.pretrain_costs.append([sum(v for n, v in c.items() if n.endswith("loss")) for c in costs])
        if comm.rank == 0:
            print(f"stage {index + 1}: cost {self.pretrain_costs[-1][-1]:.6g}", flush=True)
        if self.spot_check:
            found = trainer.evaluate({"x": dataset.inputs["train"][: self.batch_size]})
            if comm.rank == 0:
                cost = sum(v for n, v in found.items() if n.endswith("loss"))
                print(f"stage {index + 1}: first batch {cost:.6g}", flush=True)
        if self.visualize:
            self._pictures(index, trainer, network)

    def _pictures(self, index: int, trainer: nn.Trainer, network: Network) -> None:
        """Writes filtersN.png, with the filters of some positions per row, and reconstructionN.png, with the input of stage N for
        some images and below it the output of its decoder."""
        folder = Path("pictures" if self.visualize is True else str(self.visualize)).expanduser()
        shown = 12
        stages = self.stages()
        name = stages[index][0].name
        local = numpy.asarray(trainer.net.parameters[f"{name}/weight"])
        size, stride = stages[index][0].window()
        lengths = list(network.out_shape[:2])
        places = [(lengths[a] - size[a]) // stride[a] + 1 for a in (0, 1)]
        weight = self._joined(local.reshape(1, *local.shape[:2], -1), places).reshape(*places, *local.shape[2:])
        source = "x" if index == 0 else stages[index - 1][2].name
        wanted = ["decoder"] if index == 0 else ["decoder", source]
        made = trainer.predict(self.dataset.inputs["train"][:shown], wanted)
        pairs = [self.dataset.inputs["train"][:shown] if index == 0 else made[source], made["decoder"]]
        pairs = [self._joined(numpy.asarray(each), lengths) for each in pairs]

        def draw() -> None:
            if comm.rank != 0:
                return
            folder.mkdir(parents=True, exist_ok=True)
            chosen = numpy.linspace(0, len(weight) - 1, min(6, len(weight))).astype(int)
            some = numpy.concatenate([weight[place, place % weight.shape[1]] for place in chosen])
            plot.images(plot.filter_images(some), folder / f"filters{index + 1}.png", columns=weight.shape[2])
            images = [each if each.shape[3] in (1, 3) else each.mean(axis=3, keepdims=True) for each in pairs]
            both = numpy.concatenate([plot.filter_images(each) for each in images])
            plot.images(both, folder / f"reconstruction{index + 1}.png", columns=shown)

        together(draw)

    def _joined(self, local: Array, lengths: "list[int]") -> Array:
        """Returns whole images from the tiles of all ranks. Collective."""
        if comm.size == 1 or list(local.shape[1:3]) == lengths:
            return local
        shape = (len(local), *lengths, local.shape[3])
        grid = "x".join(map(str, self.dataset.grid_of()))
        return GlobalArray(shape, grid=grid, dtype=local.dtype).gather(local)
