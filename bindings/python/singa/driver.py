"""Driver: runs a job, and registers the layers and updaters that a script defines for it."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import DecodeError

import pleiad
from pleiad.options import text_of
from singa.engine import _job, session
from singa.job_pb2 import JobProto, LayerProto
from singa.utils.utility import refuse_unknown

# Options on the command line of a script that singa-run.sh passes on.
FLAGS = ("-resume", "-test", "-singa_conf", "-singa_job", "-conf", "-exec")


class Driver:
    """Runs jobs: call Init(sys.argv), then Train(job) or Test(job). A job is a JobProto or the path of a job.conf."""

    def __init__(self) -> None:
        self.resume = False
        self.conf: str | None = None

    def Init(self, argv: Sequence[str] = ()) -> None:  # noqa: N802
        """Reads -resume and -conf FILE from the command line; other arguments belong to the script."""
        words = list(argv)
        self.resume = "-resume" in words
        if "-conf" in words and words.index("-conf") + 1 < len(words):
            self.conf = words[words.index("-conf") + 1]

    def InitLog(self, name: str = "") -> None:  # noqa: N802
        """Does nothing; SINGA's scripts call it first. Logs go to stderr and to job.log in the workspace, whatever the name is."""

    def Train(self, *words: Any, job: Any = None, resume: "bool | None" = None) -> dict[int, list[dict[str, Any]]]:  # noqa: N802
        """Runs a job to its end and returns its results. Accepts Train(job), Train(job, resume), and Train(resume, job) as
        SINGA's scripts call it. job: a JobProto, its SerializeToString(), or the path of a job.conf."""
        job, resume = _job_and_resume(words, job, resume)
        return run(self._job(job), resume=self.resume if resume is None else resume).results

    def Test(self, job: Any = None) -> dict[int, list[dict[str, Any]]]:  # noqa: N802
        """Tests the parameters of the job's checkpoint_path. job: as for Train."""
        return run(self._job(job), test=True).results

    @staticmethod
    def RegisterLayer(user_type: str, factory: Any) -> None:  # noqa: N802
        """Registers a layer for all layers with this user_type. factory(LayerProto) returns an object with
        forward(inputs, parameters), which returns the output, and backward(inputs, parameters, gradient), which returns the
        gradient of the input and a list of those of the parameters. It may also have outputs(shapes) and parameters(shapes),
        which return the output shape (by default that of the input) and a dict of parameter shapes (by default none). Arrays
        include the batch as their first axis."""
        _job.register_layer(user_type, lambda conf: factory(LayerProto.FromString(conf)))

    @staticmethod
    def RegisterUpdater(user_type: str, rule: Any, **options: Any) -> None:  # noqa: N802
        """Registers an update rule for updaters with this user_type: the name of a Pleiad rule with its options, or a function
        rule(value, delta, state, numbers, rates) that changes value in place. delta is the gradient, and state has as many
        arrays as the option `arrays` says. docs/updaters.md, "Your own rules", describes the rest."""
        if callable(rule):
            pleiad.register_rule(user_type, rule, **options)
            rule, options = user_type, {}
        _job.register_updater(user_type, {"updater": rule, **{name: text_of(value) for name, value in options.items()}})

    def _job(self, job: Any) -> Any:
        job = self.conf if job is None else job
        if job is None:
            raise TypeError("Driver: expected a job, or -conf FILE on the command line")
        proto = JobProto()
        if isinstance(job, str):
            proto.ParseFromString(_job.from_file(job))
        elif isinstance(job, bytes | bytearray | memoryview):
            try:
                proto.ParseFromString(bytes(job))
            except DecodeError as problem:
                raise ValueError(
                    f"Driver: these {len(bytes(job))} bytes are not a serialized JobProto: {problem}"
                ) from None
        elif isinstance(job, JobProto):
            return job
        else:
            raise TypeError(
                f"Driver: expected a JobProto, its SerializeToString() or the path of a job.conf; received {type(job).__name__}"
            )
        return proto


def _job_and_resume(words: tuple[Any, ...], job: Any, resume: "bool | None") -> "tuple[Any, bool | None]":
    """Returns the two arguments of Train, which may come in either order."""
    if len(words) > 2:
        raise TypeError(f"Train: expected a job and resume; received {len(words)} arguments")
    for word in words:
        if isinstance(word, bool | int):
            if resume is not None:
                raise TypeError("Train: resume was given twice")
            resume = bool(word)
        elif word is not None:
            if job is not None:
                raise TypeError("Train: a job was given twice")
            job = word
    return job, resume


class Result:
    """The result of a run: the results by step, whether it completed, the last step and the last checkpoint."""

    def __init__(self, rows: Any, ended: bool, step: int, checkpoint: str) -> None:
        self.results: dict[int, list[dict[str, Any]]] = {}
        for at, phase, metrics, _ in rows:
            self.results.setdefault(at, []).append({"phase": phase, **dict(metrics)})
        self.ended, self.step, self.checkpoint = ended, step, checkpoint


class Stopped(SystemExit):
    """Ctrl-C or SIGTERM ended a run after its current step. The model was saved to `result.checkpoint`. A script that does not
    catch this exception ends without a traceback, with exit code 130."""

    raised = False

    def __init__(self, result: Result) -> None:
        super().__init__(130)
        self.result = result
        Stopped.raised = True


@contextlib.contextmanager
def _marking_ctrl_c() -> Iterator[None]:
    """Lets the runner handle Ctrl-C: it saves the model and reports that it was stopped. A second Ctrl-C raises immediately. A
    handler that the script has installed stays in place."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    seen = 0

    def mark(number: int, frame: Any) -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, mark)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(job: Any, *, resume: bool = False, test: bool = False, display: str = "") -> Result:
    """Runs a JobProto in this process, or on all ranks that a launcher started, all of which must call it."""
    refuse_unknown("display", [display] if display else [], ["lines", "live", "off"])
    if not display:
        display = "live" if _job.on_terminal() else "lines"
    world = session()
    core = world._core if world.size > 1 else None
    with _marking_ctrl_c():
        result = Result(*_job.run(job.SerializeToString(), resume, test, display, core))
    if not result.ended:
        raise Stopped(result)
    return result
