"""Every public name of the package's modules has a docstring."""

import sys

import pytest

# Prints "missing" and the name for each public name without a docstring, in a module, its public submodules and its
# classes, and the number of names at the end.
SCRIPT = """
import importlib
import inspect
import sys

def has_text(each):
    return bool(each.__doc__ if isinstance(each, property) else getattr(each, "__func__", each).__doc__)

def members_of(value):
    if inspect.ismodule(value):
        return {name: each for name, each in vars(value).items() if getattr(each, "__module__", None) == value.__name__}
    if inspect.isclass(value):
        own = [kind for kind in reversed(value.__mro__) if kind.__module__.split(".")[0] == "pleiad"]
        return {name: each for kind in own for name, each in vars(kind).items()}
    return {}

def is_documented_kind(each):
    return callable(each) or inspect.ismodule(each) or isinstance(each, (property, classmethod, staticmethod))

module = importlib.import_module(sys.argv[1])
found = 0
for name in module.__all__:
    value = getattr(module, name)
    if not is_documented_kind(value):
        continue
    found += 1
    if not has_text(value):
        print("missing", name)
    for member, each in members_of(value).items():
        if not member.startswith("_") and is_documented_kind(each):
            found += 1
            # A method without a docstring of its own inherits that of the method that it overrides.
            if not has_text(each) and not inspect.getdoc(getattr(value, member)):
                print("missing", f"{name}.{member}")
print("found", found)
"""


@pytest.mark.parametrize(
    ("module", "least"),
    [("pleiad", 90), ("pleiad.nn", 150), ("pleiad.torch", 30), ("pleiad.jax", 8), ("pleiad.keras", 8)],
)
def test_every_public_name_has_a_docstring(run, python_env, module, least):
    done = run(sys.executable, "-c", SCRIPT, module, env={**python_env, "KERAS_BACKEND": "torch"}, timeout=120)
    assert done.returncode == 0, done.stderr
    *missing, count = done.stdout.splitlines()
    assert missing == []
    assert int(count.removeprefix("found ")) >= least
