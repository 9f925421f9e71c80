"""Optimizers under the names that users of PyTorch and Keras know. Each function returns a `pleiad.Updater`, an update rule of
tables (docs/updaters.md), and accepts any field of that rule.

>>> from pleiad import nn
>>> nn.SGD(0.1, momentum=0.9)
Updater('momentum', learning_rate=0.1, momentum=0.9)
"""

from typing import Any

from pleiad.options import Updater


def SGD(
    learning_rate: float = 0.01, momentum: float = 0, *, nesterov: bool = False, weight_decay: float = 0, **more: Any
) -> Updater:
    """Stochastic gradient descent, with momentum if `momentum` > 0."""
    rule = "sgd" if momentum == 0 else "nesterov" if nesterov else "momentum"
    fields: dict[str, Any] = {"learning_rate": learning_rate}
    if momentum:
        fields["momentum"] = momentum
    if weight_decay:
        fields["weight_decay"] = weight_decay
    return Updater(rule, **fields, **more)


def Adam(
    learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **more: Any
) -> Updater:
    """Adam (Kingma and Ba)."""
    return Updater("adam", learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, **more)


def AdamW(
    learning_rate: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
    **more: Any,
) -> Updater:
    """Adam with decoupled weight decay (Loshchilov and Hutter): each step multiplies the parameters by
    1 - learning_rate * weight_decay, apart from the gradient."""
    fields = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
    return Updater("adamw", learning_rate=learning_rate, **fields, **more)


def AdaGrad(learning_rate: float = 0.01, epsilon: float = 1e-10, **more: Any) -> Updater:
    """AdaGrad (Duchi et al.)."""
    return Updater("adagrad", learning_rate=learning_rate, epsilon=epsilon, **more)


def AdaDelta(learning_rate: float = 1, decay: float = 0.9, epsilon: float = 1e-6, **more: Any) -> Updater:
    """AdaDelta (Zeiler)."""
    return Updater("adadelta", learning_rate=learning_rate, decay=decay, epsilon=epsilon, **more)


def AdaMax(
    learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **more: Any
) -> Updater:
    """AdaMax, the variant of Adam with the infinity norm."""
    return Updater("adamax", learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, **more)


def RMSProp(learning_rate: float = 0.01, decay: float = 0.99, epsilon: float = 1e-8, **more: Any) -> Updater:
    """RMSProp (Hinton)."""
    return Updater("rmsprop", learning_rate=learning_rate, decay=decay, epsilon=epsilon, **more)
