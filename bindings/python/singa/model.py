"""Models: layers that are trained and tested together. `from singa.model import *` imports all that a script uses."""

import atexit
import copy
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from google.protobuf import text_format

from singa.datasets import cifar10, mnist  # noqa: F401
from singa.driver import Result, Stopped, run
from singa.engine import _job, session
from singa.initializations import get_init_values  # noqa: F401
from singa.layer import *  # noqa: F403
from singa.layer import Autoencoder, Data, Layer
from singa.net_building import LOSSES, build_net
from singa.parameter import Parameter, set_param_field  # noqa: F401
from singa.saving import load_model_parameter, save_model_parameter  # noqa: F401
from singa.updater import *  # noqa: F403
from singa.utils.message import *  # noqa: F403
from singa.utils.message import MODULE as pb
from singa.utils.message import enumAlgType, enumLayerType, enumPhase
from singa.utils.utility import arguments_of, field_names, generate_name, refuse_unknown, setval, whole  # noqa: F401

Results = dict[int, list[dict[str, Any]]]


class Model:
    """Layers and a job. `jobconf` is the JobProto that a run starts from, and `layers` are the layers in order.

    name: name of the job. argv: command line of the script, of which -resume is read. label: ignored; older scripts pass it.
    """

    def __init__(self, name: str = "my model", argv: Sequence[str] = (), label: bool = False) -> None:
        self.jobconf = pb.JobProto(name=name)
        self.layers: list[Layer] = []
        self.argv = list(argv)
        self.label = label
        self.result: Results | None = None
        self.last_checkpoint_path: str | None = None
        self._loss: str | None = None
        self._topk = 1
        self._compiled = False
        self._pending: pb.JobProto | None = None
        self._steps = 0  # step of the last checkpoint

    # Construction.

    def add(self, layer: Any) -> None:
        """Adds a layer on top of the others; a Data layer is added as an input."""
        if not isinstance(layer, Layer | Autoencoder):
            raise TypeError(f"add: expected a layer; received {type(layer).__name__}")
        self.layers.append(layer)

    def compile(
        self,
        optimizer: Any = None,
        cluster: Any = None,
        loss: "str | None" = None,
        topk: int = 1,
        updater: Any = None,
        **kwargs: Any,
    ) -> None:
        """Sets how the model is trained. optimizer (or updater): SGD, AdaGrad and so on. cluster: a Cluster. loss:
        "categorical_crossentropy" or "mean_squared_error"; a final softmax implies the former. topk: the number of best scores
        among which a label counts as correct."""
        refuse_unknown("compile", kwargs, arguments_of(Model.compile))
        if (optimizer is None) == (updater is None):
            raise TypeError("compile: expected either optimizer or updater")
        if cluster is None:
            raise TypeError("compile: expected cluster=Cluster(workspace)")
        if loss is not None:
            refuse_unknown("compile: loss", [loss], LOSSES)
        self.jobconf.updater.CopyFrom((optimizer or updater).proto)
        self.jobconf.cluster.CopyFrom(cluster.proto)
        self._loss, self._topk, self._compiled = loss, topk, True

    def build(self, data: "Sequence[Data] | None" = None) -> Any:
        """Builds the NetProto of the layers, stores it in jobconf and returns it."""
        sources = list(data) if data is not None else [each for each in self.layers if each.is_datalayer]
        above = [each for each in self.layers if not each.is_datalayer]
        net = build_net(sources, above, self._loss, self._topk)
        net.partition_dim = self.jobconf.neuralnet.partition_dim
        self.jobconf.neuralnet.CopyFrom(net)
        return net

    # Runs.

    def fit(
        self,
        data: "Data | None" = None,
        alg: Any = "bp",
        nb_epoch: int = 0,
        with_test: bool = False,
        device: Any = None,
        validate_data: "Data | None" = None,
        batch_size: "int | None" = None,
        execpath: str = "",
        **fields: Any,
    ) -> "Results | None":
        """Trains for nb_epoch steps on the batches of `data`, and returns the results: a list for each step, such as
        {60: [{'phase': 'train', 'loss': 2.3, 'acc': 0.1}]}. A further call continues with the current parameters.

        with_test=True defers the training to evaluate(), which tests in between. validate_data is evaluated every
        validate_freq steps. alg: bp, cd, bptt or an Algorithm. Other arguments are fields of JobProto: disp_freq (by default a
        tenth of the steps), checkpoint_freq (by default only at the end), checkpoint_path, test_freq and so on.
        """
        self._check_compiled("fit")
        refuse_unknown("fit", fields, {*field_names(self.jobconf), "cd_k", *arguments_of(Model.fit)})
        nb_epoch = whole("fit: nb_epoch, the steps", nb_epoch)
        job = self._job()
        setval(job, train_steps=nb_epoch, disp_freq=max(1, nb_epoch // 10))
        if "checkpoint_freq" not in fields:  # a checkpoint at the end only
            setval(job, checkpoint_freq=nb_epoch, checkpoint_after=nb_epoch)
        self._set_algorithm(job, alg, fields)
        if device is not None:
            setval(job, gpu=device)
        sources = self._sources(data, "train", batch_size)
        if validate_data is not None:
            sources += self._sources(validate_data, "val", batch_size)
        if any(enumPhase("val") in each.phases for each in sources):
            setval(job, validate_freq=max(1, nb_epoch // 10))
        paths = self._checkpoints(sources)
        if paths:
            setval(job, checkpoint_path=paths)
        setval(job, **fields)
        # Scripts read these fields of jobconf after fit, which sets them as the original does.
        self.jobconf.train_steps = job.train_steps
        self.jobconf.train_one_batch.CopyFrom(job.train_one_batch)
        self._pending = job
        self._pending_sources = sources
        if with_test:
            _leave_for_later(self)
            return None
        self._pending = None
        return self._train(job, sources)

    def evaluate(
        self,
        data: "Data | None" = None,
        batch_size: "int | None" = None,
        test_steps: int = 10,
        test_freq: "int | None" = None,
        checkpoint_path: Any = None,
        device: Any = None,
        alg: Any = None,
        execpath: str = "",
        show_acc: bool = True,
        **fields: Any,
    ) -> Results:
        """Tests on test_steps batches of `data` and returns the results. After fit(with_test=True) it trains, and tests every
        test_freq steps (by default a tenth of them). Otherwise it tests the parameters of the last fit, or those of
        checkpoint_path."""
        self._check_compiled("evaluate")
        refuse_unknown("evaluate", fields, {*field_names(self.jobconf), *arguments_of(Model.evaluate)})
        test_steps = whole("evaluate: test_steps", test_steps, 0)
        tests = self._sources(data, "test", batch_size)
        job, self._pending = self._pending, None
        if job is not None and checkpoint_path is None:
            _unfinished.remove(self)
            setval(job, test_steps=test_steps, test_freq=test_freq or max(1, job.train_steps // 10))
            if device is not None:
                setval(job, gpu=device)
            setval(job, **fields)
            return self._train(job, self._pending_sources + tests)
        job = self._job()
        setval(job, test_steps=test_steps, test_freq=test_freq)
        self._set_algorithm(job, alg or "bp", {})
        if device is not None:
            setval(job, gpu=device)
        path = checkpoint_path or self.last_checkpoint_path
        if path is None:
            raise ValueError("evaluate: there are no parameters to test; call fit first or pass checkpoint_path")
        setval(job, checkpoint_path=path)
        setval(job, **fields)
        job.neuralnet.CopyFrom(self.build(tests))
        return self._keep(self._as_trained(run(job, test=True), path))

    def _as_trained(self, result: Result, path: Any) -> Result:
        """Returns the results of a test under the step in the checkpoint's name."""
        name = Path(path if isinstance(path, str) else path[0]).name
        match = re.match(r"step(\d+)-worker\d+$", name)
        step = int(match.group(1)) if match else 0
        result.results = {step: [row for rows in result.results.values() for row in rows]}
        return result

    def _train(self, job: Any, sources: list[Data]) -> Results:
        job.neuralnet.CopyFrom(self.build(sources))
        result = run(job, resume="-resume" in self.argv)
        if result.checkpoint:
            self.last_checkpoint_path = result.checkpoint
        self._steps = result.step
        self.jobconf.neuralnet.CopyFrom(job.neuralnet)
        self._last_job = job
        return self._keep(result)

    def _keep(self, result: Result) -> Results:
        self.result = result.results
        return result.results

    def _check_compiled(self, where: str) -> None:
        if not self._compiled:
            raise TypeError(f"{where}: call compile first")

    def _job(self) -> Any:
        job = pb.JobProto()
        job.CopyFrom(self.jobconf)
        job.ClearField("checkpoint_path")
        return job

    def _set_algorithm(self, job: Any, alg: Any, fields: dict[str, Any]) -> None:
        job.train_one_batch.CopyFrom(alg.proto if hasattr(alg, "proto") else pb.AlgProto(alg=enumAlgType(alg)))
        cd_k = fields.pop("cd_k", None)
        if cd_k is not None:
            job.train_one_batch.cd_conf.cd_k = cd_k

    def _sources(self, data: "Data | None", phase: str, batch_size: "int | None") -> list[Data]:
        """Returns the data of a phase: those given, or those added."""
        wanted = enumPhase(phase)
        if data is None:
            found = [each for each in self.layers if each.is_datalayer and wanted in each.phases]
            if not found:
                raise TypeError(f"expected data to {phase} with; pass them as an argument or call add")
        else:
            if not isinstance(data, Data):
                raise TypeError(f"expected a Data layer; received {type(data).__name__}")
            found = [data]
        copies = []
        for each in found:
            own = copy.copy(each)
            own.layer = pb.LayerProto()
            own.layer.CopyFrom(each.layer)
            setval(own.layer, include=[wanted])
            if batch_size is not None:
                setval(own.layer.store_conf, batchsize=batch_size)
            copies.append(own)
        return copies

    def _checkpoints(self, sources: list[Data]) -> list[str]:
        """Returns the files of the initial parameters: those of the last fit, or those that the data name."""
        if self.last_checkpoint_path is not None:
            return [self.last_checkpoint_path]
        paths: list[str] = []
        for each in sources:
            for path in each.checkpoint or []:
                if not Path(path).exists():
                    maker = each.made_by.get(path)
                    raise FileNotFoundError(f"{path}: no such checkpoint{f'; {maker} makes it' if maker else ''}")
                paths.append(path)
        return paths

    # Parameters and results.

    def _net(self) -> Any:
        if self.last_checkpoint_path is None:
            raise ValueError("there are no parameters yet: call fit or load_weights first")
        job = pb.JobProto()
        job.CopyFrom(self._last_job)
        return _job.net(job.SerializeToString(), self.last_checkpoint_path)

    def predict(self, x: Any, batch_size: int = 100) -> Any:
        """Returns the output of the layer below the loss for arrays of samples; for a softmax loss, probabilities. Samples must
        be as the net reads them: scaled, and images as (channels, height, width)."""
        net = self._net()
        top = self._last_job.neuralnet.layer[-1]
        name = top.srclayers[0]
        x = numpy.asarray(x, numpy.float32)
        out = []
        for first in range(0, len(x), batch_size):
            rows = x[first : first + batch_size]
            net.prepare(len(rows))
            to = net.input_array("data")
            shape = to.shape
            if len(shape) == 4:
                rows = rows.reshape(len(rows), shape[3], shape[1], shape[2]).transpose(0, 2, 3, 1)
            to[...] = rows.reshape(shape)
            net.forward("test", 0, 0)
            out.append(net.output(name).copy())
        scores = numpy.concatenate(out)
        if top.type == enumLayerType("softmaxloss"):
            scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
        return scores

    def save_weights(self, path: str) -> None:
        """Writes the parameters of the last fit as a SINGA checkpoint, or as safetensors if the path has that suffix."""
        if self.last_checkpoint_path is None:
            raise ValueError("save_weights: there are no parameters yet; call fit or load_weights first")
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".safetensors":
            _job.export_checkpoint(self._last_job.SerializeToString(), self.last_checkpoint_path, path, "singa")
            return
        target.write_bytes(Path(self.last_checkpoint_path).read_bytes())

    def load_weights(self, path: str) -> None:
        """Sets the parameters by name for the next fit, evaluate and predict. Reads a checkpoint, or a safetensors file, beside
        which it writes a checkpoint."""
        if not Path(path).exists():
            raise FileNotFoundError(f"{path}: no such checkpoint")
        if not hasattr(self, "_last_job"):
            self._last_job = self._job()
            self._set_algorithm(self._last_job, "cd" if isinstance(self, Energy) else "bp", {})
            self._last_job.neuralnet.CopyFrom(self.build())
        if path.endswith(".safetensors"):
            made = str(Path(path).with_suffix("")) + "-step0-worker0"
            world = session()
            if world.rank == 0:
                _job.import_checkpoint(self._last_job.SerializeToString(), path, made, 0)
            world.barrier()
            path = made
        self.last_checkpoint_path = path

    def get_weights(self) -> dict[str, Any]:
        """Returns copies of the parameters of the last fit, by name."""
        if self.last_checkpoint_path is None:
            raise ValueError("get_weights: there are no parameters yet; call fit or load_weights first")
        blobs = pb.BlobProtos.FromString(Path(self.last_checkpoint_path).read_bytes())
        names = [name.split("#", 1)[-1] for name in blobs.name]
        return {
            name: numpy.array(blob.data, numpy.float32).reshape(list(blob.shape))
            for name, blob in zip(names, blobs.blob, strict=True)
        }

    def summary(self) -> str:
        """Prints and returns a text table of layers, shapes and parameters."""
        job = self._job()
        self._set_algorithm(job, "cd" if isinstance(self, Energy) else "bp", {})
        sources = [each for each in self.layers if each.is_datalayer] or getattr(self, "_pending_sources", [])
        if not sources:
            raise TypeError("summary: shapes depend on the data; call add with a Data layer, or fit, first")
        job.neuralnet.CopyFrom(self.build(sources))
        text = _job.summary(job.SerializeToString())
        print(text, end="")
        return text

    def explain(self, ranks: int = 0) -> str:
        """Returns a text table of what each rank computes for the last fit's job, and of the bytes that a step exchanges."""
        return _job.explain(self._last_job.SerializeToString(), ranks)

    def display(self) -> None:
        """Prints the job as text."""
        print(text_format.MessageToString(self.jobconf), end="")


class Sequential(Model):
    """A model of layers in sequence."""


class Energy(Model):
    """A model of RBM layers."""


_unfinished: list[Model] = []


def _leave_for_later(model: Model) -> None:
    if model not in _unfinished:
        _unfinished.append(model)
    session()  # its exit handler runs after those that are registered from here on
    atexit.unregister(_finish)
    atexit.register(_finish)


def _finish() -> None:
    """Runs the training that fit(with_test=True) deferred if no evaluate() followed, unless an exception or Ctrl-C ended the
    script."""
    for model in list(_unfinished) if not hasattr(sys, "last_type") and not Stopped.raised else []:
        job = model._pending
        if job is None:
            continue
        print(
            f'singa: fit(with_test=True) of "{job.name}" was not followed by evaluate(); training now, without tests',
            file=sys.stderr,
        )
        model._pending = None
        model._train(job, model._pending_sources)
