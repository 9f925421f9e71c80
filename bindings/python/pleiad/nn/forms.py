"""The forms in which callers pass samples: arrays, tables, iterables, and factors of samples in the loss."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from pleiad.errors import InvalidArgument

if TYPE_CHECKING:
    from pleiad.nn.net import Net


def is_array(x: Any) -> bool:
    """Returns whether `x` is an array, or nested lists of numbers, or holds arrays."""
    if isinstance(x, Mapping | tuple | list | str | bytes | int | float | numpy.generic):
        return True
    return hasattr(x, "__array__") or hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__")


def is_table(x: Any) -> bool:
    """Returns whether `x` gives samples by index, as datasets of PyTorch and Hugging Face do."""
    return not is_array(x) and hasattr(x, "__getitem__") and hasattr(x, "__len__")


def is_stream(x: Any) -> bool:
    """Returns whether `x` gives batches one after the other, as generators and PyTorch's DataLoader do, or is a function
    that returns such an iterator."""
    return not is_array(x) and not is_table(x) and (hasattr(x, "__iter__") or callable(x))


def by_name(given: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Returns arrays by input, for a mapping, or arrays in the order of `names`."""
    if isinstance(given, Mapping):
        return dict(given)
    arrays = list(given) if isinstance(given, tuple) else [given]
    if len(arrays) != len(names):
        raise InvalidArgument(
            f"{what}: expected {_count(len(names), 'array')} ({', '.join(names) or 'none'}), or a dict by input; "
            f"received {_count(len(arrays), 'array')}"
        )
    return dict(zip(names, arrays, strict=True))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def parts_of(net: "Net", item: Any, where: str) -> tuple[dict[str, Any], Any]:
    """Splits an item of a table or an iterable into values by input and the sample weight. The item is a dict by input, of
    which other entries are ignored; or x, (x, y) or (x, y, sample_weight), where x and y are those of `fit`."""
    if isinstance(item, Mapping):
        missing = [name for name in net.inputs if name not in item]
        if missing:
            raise InvalidArgument(
                f'{where}: expected an entry for each input of net "{net.name}"; missing: {", ".join(missing)}; '
                f"received: {', '.join(map(str, item)) or 'none'}"
            )
        return {name: item[name] for name in net.inputs}, item.get("sample_weight")
    targets = net.targets
    features = [name for name in net.inputs if name not in targets]
    words = tuple(item) if isinstance(item, tuple | list) else (item,)
    if not 1 <= len(words) <= 3 or (targets and len(words) == 1):
        forms = "(x, y) or (x, y, sample_weight)" if targets else "x"
        raise InvalidArgument(f"{where}: expected a dict by input, {forms}; received {_count(len(words), 'value')}")
    found = by_name(_tupled(words[0]), features, f"{where}: x")
    if len(words) > 1 and targets:
        found |= by_name(_tupled(words[1]), targets, f"{where}: y")
    return found, words[2] if len(words) == 3 else None


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def host_array(value: Any) -> NDArray[Any]:
    """Converts an array or a tensor of PyTorch on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return numpy.asarray(value)


class Weights:
    """Computes the factor of each sample in the loss from sample weights and from the weights of its class."""

    def __init__(self, net: "Net", class_weight: "Mapping[int, float] | None") -> None:
        self.net, self.by_class = net, class_weight
        if class_weight is None:
            return
        if not isinstance(class_weight, Mapping):
            raise InvalidArgument(
                f"class_weight: expected a dict of factors by label; received {type(class_weight).__name__}"
            )
        labels = [name for name in net.targets if net.inputs[name] in ("int32", "int64")]
        if len(labels) != 1:
            raise InvalidArgument(
                f"class_weight: expected a net with one input of integer labels; its targets: {', '.join(net.targets) or 'none'}"
            )
        _check(numpy.array([float(value) for value in class_weight.values()]), "class_weight")
        self.label = labels[0]

    def of(self, arrays: Mapping[str, NDArray[Any]], sample_weight: Any) -> "NDArray[Any] | None":
        """Returns the factors of these samples, or None if all are 1."""
        count = len(next(iter(arrays.values())))
        factors = None
        if sample_weight is not None:
            factors = host_array(sample_weight).astype(self.net.dtype)
            if factors.shape == (count, 1):
                factors = factors[:, 0]
            if factors.shape != (count,):
                raise InvalidArgument(f"sample_weight: expected shape ({count},); received {factors.shape}")
            _check(factors, "sample_weight")
        if self.by_class is not None:
            labels = arrays[self.label]
            if labels.shape != (count,):
                raise InvalidArgument(
                    f"class_weight: expected one label per sample; received labels of shape {labels.shape}"
                )
            of_class = numpy.ones(count, self.net.dtype)
            for label, factor in self.by_class.items():
                of_class[labels == label] = factor
            factors = of_class if factors is None else factors * of_class
        return None if factors is None else numpy.ascontiguousarray(factors)


def _check(factors: NDArray[Any], what: str) -> None:
    if not (numpy.isfinite(factors) & (factors >= 0)).all():
        wrong = factors[~(numpy.isfinite(factors) & (factors >= 0))][0]
        raise InvalidArgument(f"{what}: expected finite factors of at least 0; received {wrong}")
