"""Ordered calls of Python functions from compiled code.

`jax.experimental.io_callback` converts the arguments to JAX arrays inside the callback and waits for the conversion. On CPUs this
deadlocks for large arguments, because the conversion needs the thread that waits. The primitive defined here has the same ordered
effect, but passes NumPy arrays.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.experimental
import jax.extend
import numpy
from jax.interpreters import ad, batching, mlir

from pleiad.errors import InvalidArgument


def ordered_call(host: Callable[..., Any], args: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """Calls `host` with NumPy arrays each time compiled code reaches this point, in program order. `host` must return a tuple of
    arrays with the shapes of the arguments and the types `kinds`, and must not use JAX."""
    results = tuple(jax.core.ShapedArray(x.shape, numpy.dtype(kind)) for x, kind in zip(args, kinds, strict=True))
    return list(_primitive().bind(*args, host=host, results=results))


@cache
def _primitive() -> Any:
    # The effect that orders JAX's own callbacks, so that both kinds share one order.
    traced: Any = jax.make_jaxpr(lambda: jax.experimental.io_callback(lambda: None, None, ordered=True))()
    (effect,) = traced.effects
    made: Any = jax.extend.core.Primitive("pleiad_collective")
    made.multiple_results = True
    made.def_effectful_abstract_eval(lambda *_, host, results: (results, {effect}))
    made.def_impl(lambda *args, host, results: [jax.numpy.asarray(x) for x in host(*map(numpy.asarray, args))])

    def lower(ctx: Any, *args: Any, host: Callable[..., Any], results: Any) -> Any:
        values, token, _ = mlir.emit_python_callback(
            ctx,
            host,
            ctx.tokens_in.get(effect),
            list(args),
            ctx.avals_in,
            ctx.avals_out,
            has_side_effect=True,
            returns_token=True,
        )
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({effect: token})))
        return values

    mlir.register_lowering(made, lower, cacheable=False)

    def refuse(what: str) -> Callable[..., Any]:
        def rule(*_: Any, **__: Any) -> Any:
            raise InvalidArgument(
                f"[pleiad.jax] a collective cannot be {what}; call it on the result, such as on the gradients"
            )

        return rule

    ad.primitive_jvps[made] = refuse("differentiated")
    batching.primitive_batchers[made] = refuse("vmapped")
    return made
