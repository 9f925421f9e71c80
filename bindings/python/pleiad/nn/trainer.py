"""The training loop: batch, forward, loss, backward, gradient exchange, update, metrics."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy
from numpy.typing import NDArray

from pleiad import sessions
from pleiad.errors import InvalidArgument, StateError
from pleiad.nn.callbacks import Call, Callback
from pleiad.nn.choices import Clock, Exchange, Phase, Plan, ProgressMode
from pleiad.nn.ctrl_c import CtrlC
from pleiad.nn.data import dataset, named
from pleiad.nn.engine import _nn
from pleiad.nn.evaluation import evaluate
from pleiad.nn.extent import expect_readable, extent_of, length_of
from pleiad.nn.feeds import SampleFeed, StreamFeed
from pleiad.nn.forms import Weights
from pleiad.nn.history import History, Record
from pleiad.nn.net import Net
from pleiad.nn.progress import Progress
from pleiad.nn.rates import Rates
from pleiad.nn.run import Run, common_options
from pleiad.nn.same import expect_same
from pleiad.nn.schedules import Plateau, ScheduleLike
from pleiad.nn.stream import Stream
from pleiad.options import Updater, updater_options
from pleiad.representation import constructor_text
from pleiad.worlds import launched_processes


class Trainer:
    """Trains a net in this process, or on all ranks of the session, which must then make the same calls.

    Args:
        net: the net to train.
        optimizer: `nn.SGD(...)`, `nn.Adam(...)` and so on, the name of an update rule, or a `pleiad.Updater`.
        batch: batch size of all ranks together.
        schedule, momentum: schedules from `nn.schedules`, or functions of the step, which override the optimizer's learning
            rate and momentum.
        clip_norm: above 0, gradients are scaled so that their L2 norm over all parameters is at most this.
        exchange: how gradients are exchanged: "all_reduce", "tables", "none", or "auto", which uses all_reduce if there are
            several ranks.
        clock: clock of the tables, "sync" or "async", for exchange="tables".
        fuse: apply updates as soon as gradients are computed. False keeps the gradients in memory for `net.gradients`.
        check_finite: if True, a NaN or infinite loss raises an error that names the step and the first layer whose output is
            not finite; if False, a warning is printed once and training continues.
        plan: how the work is divided: "data", "feature", "hybrid" (splits the layers in `split`) or "spatial" (ranks form a
            `grid` over the images). With plans other than "data" the net holds only this rank's part, and all ranks must
            make the same calls of `evaluate` and `predict`.
        split: names of the layers that plan="hybrid" splits.
        grid: "2x3" (rows x columns), "2x3x2" (rows x columns x groups), or "auto" (docs/nn.md).
        deterministic: make results of a spatial plan without groups bit-identical for any number of ranks. Slow.
        checkpoint: folder in which `fit` saves the state at its end, also after an error, and periodically before. `resume`
            continues from the last checkpoint.
        checkpoint_every: number of steps between checkpoints; by default one per epoch.
        keep: number of most recent checkpoints to keep.
        session: the session to use; by default the current one.

    >>> import numpy
    >>> from pleiad import nn
    >>> net = nn.Sequential([nn.Dense(8, "tanh"), nn.Dense(2)], input=(2,), loss=nn.SoftmaxLoss())
    >>> x = numpy.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
    >>> trainer = nn.Trainer(net, nn.Adam(0.05), batch=4)
    >>> history = trainer.fit(x, [0, 1, 1, 0], epochs=200, progress=False)
    >>> trainer.evaluate(x, [0, 1, 1, 0])["accuracy"]
    1.0
    >>> trainer.predict(x).argmax(axis=1).tolist()
    [0, 1, 1, 0]
    """

    def __init__(
        self,
        net: Net,
        optimizer: "str | Mapping[str, Any] | Updater" = "sgd",
        *,
        batch: int = 64,
        schedule: ScheduleLike = None,
        momentum: ScheduleLike = None,
        clip_norm: float = 0,
        exchange: Exchange = "auto",
        clock: Clock = "sync",
        fuse: bool = True,
        check_finite: bool = True,
        plan: Plan = "data",
        split: Sequence[str] = (),
        grid: str = "auto",
        deterministic: bool = False,
        checkpoint: "str | os.PathLike[str] | None" = None,
        checkpoint_every: "int | None" = None,
        keep: int = 3,
        session: "sessions.Session | None" = None,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name not in ("self", "session")}
        if not isinstance(net, Net):
            raise InvalidArgument(f"net: expected pleiad.nn.Net; received {type(net).__name__}")
        self.net = net
        self.batch = batch
        self._session = sessions._current if session is None else session
        core = None if self._session is None else self._session._core
        rule = updater_options(optimizer)
        if checkpoint_every is not None and (checkpoint is None or checkpoint_every < 1):
            raise InvalidArgument(
                f"[Trainer] checkpoint_every: expected at least 1 and a folder as checkpoint; received {checkpoint_every}, "
                f"checkpoint {checkpoint!r}"
            )
        folder = "" if checkpoint is None else os.fspath(checkpoint)
        self._rates = Rates(schedule, momentum)
        self._core = _nn.Trainer(
            net._core,
            batch,
            rule,
            self._rates.core_of(schedule),
            self._rates.core_of(momentum),
            exchange,
            clock,
            fuse,
            check_finite,
            plan,
            list(split),
            grid,
            deterministic,
            folder,
            keep,
            clip_norm,
            self._rates.state_size,
            core,
        )
        if self._session is None and exchange != "none" and (count := launched_processes()) > 1:
            raise StateError(
                f"[Trainer] the launcher started {count} processes but there is no session, so each would train a net of its "
                f'own; call pleiad.init() first, or pass exchange="none" to train separate nets'
            )
        self._rates.start(self)
        self._base_rate = float(rule.get("updater.learning_rate", 0.01))
        self._saves = checkpoint is not None
        self._every = checkpoint_every
        self._alike = deterministic  # all ranks have bit-identical metrics
        self._together = plan != "data" and self._core.ranks > 1
        # Ranks that split images compute the same samples.
        self._samples_counted_once = 1.0 if plan == "data" else self._core.shares / self._core.ranks
        self._resumed = False  # the next fit continues a loaded checkpoint
        self._epochs = 0  # number of epochs so far
        self.history = History()
        self._ctrl_c = CtrlC()
        self._chunk = 1  # number of steps that take about TICK

    @property
    def step_number(self) -> int:
        """The number of steps made so far."""
        return self._core.current_step

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step, before the factors of single parameters."""
        return self._rates.rate_at(self.step_number, self._base_rate)

    @property
    def local_batch(self) -> int:
        """The number of samples of a batch that this rank processes."""
        return self._core.local_batch

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self._core.rank

    def __repr__(self) -> str:
        return constructor_text(type(self), self._given)

    # Single steps.

    def step(self, x: Any = None, y: Any = None, *, sample_weight: Any = None) -> dict[str, float]:
        """Makes one step on this rank's part of a batch, or on the current contents of the net's inputs. Returns this rank's
        metrics before the update."""
        if x is not None:
            arrays = named(self.net, x, y)
            missing = [name for name in self.net.inputs if name not in arrays]
            if missing:
                raise InvalidArgument(
                    f"[Trainer.step] expected an array for every input; missing: {', '.join(missing)}"
                )
            rows = {name: len(array) for name, array in arrays.items()}
            if set(rows.values()) != {self.local_batch}:
                raise InvalidArgument(
                    f"[Trainer.step] expected {self.local_batch} samples on each rank; received {rows}"
                )
            self.net.set_inputs(arrays)
            weights = Weights(self.net, None).of(arrays, sample_weight)
            self.net._core.weigh_samples(weights is not None)
            if weights is not None:
                self.net._core.sample_weights()[...] = weights
        self._rates.set_for(1, together=False)
        self._core.step()
        return self.net.metrics()

    # Whole runs.

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int = 1,
        validation: Any = None,
        steps_per_epoch: "int | None" = None,
        drop_last: bool = False,
        sample_weight: Any = None,
        class_weight: "Mapping[int, float] | None" = None,
        log_every: "int | None" = None,
        shuffle: bool = True,
        seed: int = 1,
        callbacks: "Iterable[Callback | Callable[[Record], Any]]" = (),
        progress: "bool | ProgressMode" = "auto",
    ) -> History:
        """Trains for `epochs` more epochs and returns their history; `self.history` has that of all calls. After `resume`, the
        epochs of the checkpoint count as done.

        Args:
            x: an array, a tuple of arrays in the order of the inputs, a dict by input, a `Dataset` or `StoreSamples`; a dataset
                of PyTorch or Hugging Face (`nn.Indexed`); a generator, a DataLoader or a function that returns an iterator
                (`nn.Stream`). Every rank passes the whole dataset and trains on its shard.
            y: likewise, for the inputs of the losses.
            epochs: number of epochs.
            validation: (x, y), (x, y, sample_weight), or anything else that `x` may be, evaluated after each epoch.
            steps_per_epoch: by default as many as it takes to see every sample once.
            drop_last: if True, all batches are complete: the samples that are left at the end of an epoch are not trained
                in it, and the next epoch begins with them. If False, they form a smaller last batch.
            sample_weight: a factor for each sample in the loss, an array (samples,). The loss of a batch is the sum of the
                weighted losses divided by the number of samples.
            class_weight: factors by label, such as {0: 1, 1: 5}; labels that are missing have the factor 1.
            log_every: number of steps between records of training; by default one record per epoch.
            shuffle: use a different order in each epoch.
            seed: seed of the order.
            callbacks: `nn.Callback`s, or functions of a record. If any returns False, the run ends.
            progress: "auto", "bar", "lines", "off", True or False.

        Ctrl-C ends the run on all ranks after the current step and then raises KeyboardInterrupt.
        """
        data = dataset(self.net, x, y, sample_weight, shuffle=shuffle, seed=seed, class_weight=class_weight)
        checks = None
        if validation is not None:
            given = validation if isinstance(validation, tuple) else (validation,)
            checks = dataset(self.net, *given, shuffle=False, seed=seed)
        expect_readable(epochs, x=None if steps_per_epoch else data, validation=checks)
        if epochs < 0 or any(each is not None and each < 1 for each in (steps_per_epoch, log_every)):
            raise InvalidArgument(
                f"[Trainer.fit] expected epochs >= 0, steps_per_epoch >= 1 and log_every >= 1; received {epochs}, "
                f"{steps_per_epoch}, {log_every}"
            )
        extent = extent_of(self, data, epochs, steps_per_epoch, drop_last, log_every)
        listeners = self._listeners(callbacks, progress)
        for each in listeners:
            each.check(validates=checks is not None)
        self._expect_same_fit(
            epochs=epochs,
            steps_per_epoch=extent.steps,
            drop_last=drop_last,
            log_every=extent.log_every,
            validation=None if checks is None else length_of(checks),
            checkpoint_every=self._every,
            epochs_done=extent.first - 1,
            **common_options(listeners),
        )
        feed: SampleFeed | StreamFeed
        if isinstance(data, Stream):
            feed = StreamFeed(self, data, extent.incomplete, endless=steps_per_epoch is not None)
        else:
            feed = SampleFeed(self, data, extent.incomplete)
            self._core.train_on(data._core, extent.incomplete)
            if not self._resumed and extent.incomplete and steps_per_epoch is None:
                self._core.begin_pass(data._core)
        run = Run(self, feed, checks, extent, listeners)
        self._resumed = False
        with self._ctrl_c.watching():
            run.go()
        if self._ctrl_c.pressed:
            raise KeyboardInterrupt
        return run.history

    def evaluate(self, x: Any, y: Any = None, *, sample_weight: Any = None, phase: Phase = "test") -> dict[str, float]:
        """Returns the loss and metrics, averaged over all samples. `x`, `y` and `sample_weight` are those of `fit`. With several
        ranks each evaluates its shard. If the plan splits layers, an incomplete last batch is ignored. A loss that is not
        finite raises StateError on every rank, unless check_finite is False."""
        return evaluate(self, dataset(self.net, x, y, sample_weight, shuffle=False, seed=1), phase)[0]

    @overload
    def predict(self, x: Any, outputs: str, *, phase: Phase = "test") -> NDArray[Any]: ...
    @overload
    def predict(
        self, x: Any, outputs: "list[str] | tuple[str, ...]", *, phase: Phase = "test"
    ) -> dict[str, NDArray[Any]]: ...
    @overload
    def predict(self, x: Any, outputs: None = None, *, phase: Phase = "test") -> Any: ...
    def predict(self, x: Any, outputs: "str | Sequence[str] | None" = None, *, phase: Phase = "test") -> Any:
        """Returns the outputs of a layer for every sample: of the layer that the loss compares, or of those that `outputs`
        names (a dict if it is a list). Runs on this rank alone, unless the plan splits layers or images; then it is
        collective."""
        names = [outputs] if isinstance(outputs, str) else list(outputs or self.net.predictions)
        arrays = {name: self.net.as_input(name, array) for name, array in named(self.net, x).items()}
        whole = len(next(iter(arrays.values())))
        out: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        for first in range(0, whole, self.local_batch):
            rows = min(self.local_batch, whole - first)
            # An incomplete last batch is padded, so that the net keeps the memory that it has allocated.
            take = numpy.minimum(numpy.arange(first, first + self.local_batch), whole - 1)
            self.net.forward({name: array[take] for name, array in arrays.items()}, phase=phase, step=self.step_number)
            for name in names:
                out[name].append(self.net.output(name)[:rows].copy())
        joined = {name: numpy.concatenate(parts) for name, parts in out.items()}
        return joined if len(names) > 1 or isinstance(outputs, list | tuple) else joined[names[0]]

    # Saving.

    def save(self, folder: "str | os.PathLike[str]") -> None:
        """Saves everything that a run needs to continue, in a folder that any number of ranks can load with any plan and
        exchange. The folder is written completely or not at all. Collective."""
        self._core.save(os.fspath(folder))

    def load(self, folder: "str | os.PathLike[str]") -> None:
        """Loads a folder that `save` wrote, for the same net and update rule. Changes nothing if it raises. Collective."""
        self._core.load(os.fspath(folder))

    def resume(self) -> bool:
        """Loads the newest complete checkpoint of the trainer's folder, and returns whether there is one. The next `fit`
        continues where it was saved; its epochs count as done. Collective."""
        self._resumed = self._core.resume()
        return self._resumed

    def whole_net(self) -> Net:
        """Returns a separate net with the values of this one, in which no layer or image is split. Collective."""
        return Net._of(self._core.whole_net())

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Returns a copy of everything that a run needs to continue bit for bit: parameters, states, the state of the update
        rule, the step and the seed."""
        return {name: array.copy() for name, array in self._core.state().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a dict from `state_dict` of a trainer with the same net and update rule."""
        self._core.load_state({name: numpy.ascontiguousarray(array) for name, array in state.items()})

    # Implementation.

    def _expect_same_fit(self, **asked: Any) -> None:
        """Raises an InvalidArgument on all ranks if their calls of fit differ. Collective."""
        if self._session is not None and self._core.ranks > 1:
            expect_same(self._session, "fit", **asked)

    def _listeners(self, callbacks: Iterable[Any], progress: "bool | ProgressMode") -> list[Callback]:
        mode: ProgressMode = progress if isinstance(progress, str) else "auto" if progress else "off"
        all_of_them: list[Callback] = [each if isinstance(each, Callback) else Call(each) for each in callbacks]
        shown = Progress(mode)
        if mode != "off" and self.rank == 0:
            all_of_them.insert(0, shown)
        if isinstance(self._rates.schedule, Plateau):
            all_of_them.append(self._rates)
        for each in all_of_them:
            each.trainer = self
        return all_of_them

    def _sum(self, numbers: Sequence[float]) -> list[float]:
        """Sums numbers over the ranks."""
        if self._core.ranks == 1 or self._session is None:
            return list(numbers)
        array = numpy.array(numbers, numpy.float64)
        self._session.all_reduce(array)
        return [float(number) for number in array]
