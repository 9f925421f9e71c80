"""Driver: runs a job, and the layers and updaters that a script registers for it."""

import sys
from collections.abc import Sequence
from typing import Any

import pleiad
from pleiad.options import text_of
from singa.engine import _job, session
from singa.job_pb2 import JobProto, LayerProto
from singa.utils.utility import refuse_unknown

# What the command line of a script may say, and singa-run.sh hands on.
FLAGS = ("-resume", "-test", "-singa_conf", "-singa_job", "-conf", "-exec")


class Driver:
    """Init(sys.argv), then Train(job) or Test(job), where job is a JobProto or a job.conf's path."""

    def __init__(self) -> None:
        self.resume = False
        self.conf: str | None = None

    def Init(self, argv: Sequence[str] = ()) -> None:  # noqa: N802
        """Looks for -resume and -conf FILE; other words are the script's own."""
        words = list(argv)
        self.resume = "-resume" in words
        if "-conf" in words and words.index("-conf") + 1 < len(words):
            self.conf = words[words.index("-conf") + 1]

    def Train(self, job: Any = None, resume: "bool | None" = None) -> dict[int, list[dict[str, Any]]]:  # noqa: N802
        """Runs a job to its end; returns its results."""
        return run(self._job(job), resume=self.resume if resume is None else resume).results

    def Test(self, job: Any = None) -> dict[int, list[dict[str, Any]]]:  # noqa: N802
        """Tests the parameters of the job's checkpoint_path."""
        return run(self._job(job), test=True).results

    @staticmethod
    def RegisterLayer(user_type: str, factory: Any) -> None:  # noqa: N802
        """A layer of the script's own, for layers with this user_type. factory(LayerProto) returns an object with
        forward(inputs, parameters), which returns its output; backward(inputs, parameters, gradient), which returns the
        gradient by its input and a list of those by its parameters; and, where they are not those of the input or none,
        outputs(shapes) and parameters(shapes), a dict of shapes. Arrays have the batch in front."""
        _job.register_layer(user_type, lambda conf: factory(LayerProto.FromString(conf)))

    @staticmethod
    def RegisterUpdater(user_type: str, rule: Any, **options: Any) -> None:  # noqa: N802
        """For updaters with this user_type one of Pleiad's rules with its options, or a rule of the script's own:
        rule(value, delta, state, numbers, rates) changes value, where delta is the gradient and state has as many arrays as
        `arrays=` says; docs/python.md, "Rules of your own", has the rest."""
        if callable(rule):
            pleiad.register_rule(user_type, rule, **options)
            rule, options = user_type, {}
        _job.register_updater(user_type, {"updater": rule, **{name: text_of(value) for name, value in options.items()}})

    def _job(self, job: Any) -> Any:
        job = self.conf if job is None else job
        if job is None:
            raise TypeError("Driver: expected a job, or -conf FILE on the command line")
        if isinstance(job, str):
            proto = JobProto()
            proto.ParseFromString(_job.from_file(job))
            return proto
        return job


class Result:
    """What a run gave: results by step, whether it came to its end, the step, the last checkpoint."""

    def __init__(self, rows: Any, ended: bool, step: int, checkpoint: str) -> None:
        self.results: dict[int, list[dict[str, Any]]] = {}
        for at, phase, metrics, _ in rows:
            self.results.setdefault(at, []).append({"phase": phase, **dict(metrics)})
        self.ended, self.step, self.checkpoint = ended, step, checkpoint


def run(job: Any, *, resume: bool = False, test: bool = False, display: str = "") -> Result:
    """Runs a JobProto on this process, or on the ranks that a launcher started, all of which call it."""
    refuse_unknown("display", [display] if display else [], ["lines", "live", "off"])
    if not display:
        display = "live" if sys.stderr.isatty() else "lines"
    world = session()
    result = Result(*_job.run(job.SerializeToString(), resume, test, display, world._core if world.size > 1 else None))
    if not result.ended:
        raise KeyboardInterrupt
    return result
