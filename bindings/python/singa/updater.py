"""Updaters, algorithms, clusters and stores: the settings with which a model is compiled."""

from typing import Any

from singa.utils.message import MODULE as pb
from singa.utils.message import enumAlgType, enumUpdaterType
from singa.utils.utility import arguments_of_class, field_names, refuse_unknown, setval

__all__ = [
    "SGD",
    "AdaDelta",
    "AdaGrad",
    "AdaMax",
    "Adam",
    "Algorithm",
    "Cluster",
    "Nesterov",
    "RMSProp",
    "Store",
    "Updater",
]

LR_TYPES = ("fixed", "step", "manual", "fixedstep", "linear", "exponential", "inverse", "inverse_t")


class Updater:
    """How gradients update parameters. upd_type: sgd, adagrad, rmsprop, nesterov, adadelta, adam or adammax. lr: learning rate.

    lr_type: how the learning rate depends on the step. "fixed"; "step": times gamma (0.997) every change_freq (60) steps;
    "manual": the rates step_lr from the steps `step` on; "linear": to final_lr (0.1) within change_freq (10) steps;
    "exponential": halved every change_freq steps; "inverse": lr * (1 + gamma * step) ** -pow; "inverse_t":
    lr / (1 + step / final_lr). decay: weight decay. Other arguments are fields of UpdaterProto: delta, clip_low, clip_high.
    """

    def __init__(
        self,
        upd_type: Any,
        lr: float = 0.01,
        lr_type: "str | None" = None,
        decay: float = 0,
        momentum: float = 0,
        step: Any = (0,),
        step_lr: Any = (0.01,),
        gamma: "float | None" = None,
        change_freq: "int | None" = None,
        final_lr: "float | None" = None,
        pow: "float | None" = None,
        **fields: Any,
    ) -> None:
        proto = pb.UpdaterProto(type=enumUpdaterType(upd_type))
        known = arguments_of_class(type(self)) - ({"upd_type"} if type(self) is not Updater else set())
        refuse_unknown(type(self).__name__, fields, {*field_names(proto), *known})
        if not lr > 0:
            raise ValueError(f"{type(self).__name__}: lr: expected more than 0; received {lr}")
        kind = lr_type or "fixed"
        refuse_unknown(f"{type(self).__name__}: lr_type", [kind], LR_TYPES)
        rate = proto.learning_rate
        rate.base_lr = lr
        if kind == "fixed":
            rate.type = pb.kFixed
        elif kind == "step":
            rate.type = pb.kStep
            setval(rate.step_conf, change_freq=change_freq or 60, gamma=0.997 if gamma is None else gamma)
        elif kind in ("manual", "fixedstep"):
            rate.type = pb.kFixedStep
            steps = [step] if isinstance(step, int) else list(step)
            rates = [step_lr] if isinstance(step_lr, int | float) else list(step_lr)
            if len(steps) != len(rates):
                raise ValueError(
                    f"{type(self).__name__}: expected as many step_lr as steps, {len(steps)}; received {len(rates)}"
                )
            setval(rate.fixedstep_conf, step=steps, step_lr=rates)
        elif kind == "linear":
            rate.type = pb.kLinear
            setval(rate.linear_conf, change_freq=change_freq or 10, final_lr=0.1 if final_lr is None else final_lr)
        elif kind == "exponential":
            rate.type = pb.kExponential
            setval(rate.exponential_conf, change_freq=change_freq or 1)
        elif kind == "inverse":
            rate.type = pb.kInverse
            setval(rate.inverse_conf, gamma=1 if gamma is None else gamma, pow=pow or 0)
        else:
            rate.type = pb.kInverseT
            setval(rate.inverset_conf, final_lr=final_lr)
        if decay:
            setval(proto, weight_decay=decay)
        if momentum:
            setval(proto, momentum=momentum)
        setval(proto, **fields)
        self.proto = proto

    def Update(self, step: int, layer: Any) -> None:  # noqa: N802
        """Updates the parameters of a layer whose gradient was computed, for scripts that call layers one by one."""
        layer._update(self, step)


def _named(name: str, upd_type: str, doc: str) -> type[Updater]:
    def init(self: Updater, lr: float = 0.01, lr_type: "str | None" = None, **kwargs: Any) -> None:
        Updater.__init__(self, upd_type, lr, lr_type, **kwargs)

    return type(name, (Updater,), {"__init__": init, "__doc__": doc, "__module__": __name__})


SGD = _named("SGD", "sgd", "h = momentum * h - lr * g; w += h.")
AdaGrad = _named("AdaGrad", "adagrad", "h += g * g; w -= lr * g / sqrt(h + delta).")
Nesterov = _named("Nesterov", "nesterov", "Momentum that looks ahead.")


class RMSProp(Updater):
    """h = rho * h + (1 - rho) * g * g; w -= lr * g / sqrt(h + delta)."""

    def __init__(self, lr: float = 0.01, lr_type: "str | None" = None, rho: float = 0.9, **kwargs: Any) -> None:
        super().__init__("rmsprop", lr, lr_type, **kwargs)
        self.proto.rmsprop_conf.rho = rho


class AdaDelta(Updater):
    """Scales gradients by the ratio of the root mean squares of past steps and past gradients."""

    def __init__(self, lr: float = 1.0, lr_type: "str | None" = None, rho: float = 0.9, **kwargs: Any) -> None:
        super().__init__("adadelta", lr, lr_type, **kwargs)
        self.proto.adadelta_conf.rho = rho


class Adam(Updater):
    """Divides the mean of the gradients by the root of the mean of their squares, both corrected for their bias."""

    def __init__(
        self, lr: float = 0.001, lr_type: "str | None" = None, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any
    ) -> None:
        super().__init__("adam", lr, lr_type, **kwargs)
        self.proto.adam_conf.beta1, self.proto.adam_conf.beta2 = beta1, beta2


class AdaMax(Updater):
    """Adam with the infinity norm of the gradients in place of their mean square."""

    def __init__(
        self, lr: float = 0.002, lr_type: "str | None" = None, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any
    ) -> None:
        super().__init__("adammax", lr, lr_type, **kwargs)
        self.proto.adammax_conf.beta1, self.proto.adammax_conf.beta2 = beta1, beta2


class Algorithm:
    """How gradients are computed from a batch: bp, cd (with cd_k Gibbs steps) or bptt."""

    def __init__(self, type: Any = "bp", cd_k: "int | None" = None, **kwargs: Any) -> None:
        self.proto = pb.AlgProto(alg=enumAlgType(type))
        setval(self.proto, **kwargs)
        if cd_k is not None:
            self.proto.cd_conf.cd_k = cd_k


class Cluster:
    """The processes of a job and its workspace, the folder of checkpoints, results and the log. Other arguments are fields of
    ClusterProto: server_worker_separate, sync_freq and so on."""

    def __init__(
        self,
        workspace: "str | None" = None,
        nworker_groups: int = 1,
        nserver_groups: int = 1,
        nworkers_per_group: int = 1,
        nservers_per_group: int = 1,
        nworkers_per_procs: int = 1,
        nservers_per_procs: int = 1,
        **fields: Any,
    ) -> None:
        if not workspace:
            raise TypeError("Cluster: expected workspace, a folder")
        self.proto = pb.ClusterProto(workspace=str(workspace))
        setval(
            self.proto,
            nworker_groups=nworker_groups,
            nserver_groups=nserver_groups,
            nworkers_per_group=nworkers_per_group,
            nservers_per_group=nservers_per_group,
            nworkers_per_procs=nworkers_per_procs,
            nservers_per_procs=nservers_per_procs,
            **fields,
        )


class Store:
    """Where records are stored and how they are read: path, backend (kvfile, textfile, lmdb...), batch_size, shape, mean_value,
    std_value, mean_file, std_file, random_skip, separator, has_label."""

    def __init__(self, **kwargs: Any) -> None:
        self.proto = pb.StoreProto()
        setval(self.proto, **kwargs)
