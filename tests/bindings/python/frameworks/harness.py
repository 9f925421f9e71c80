"""Runs the cases of a program in this process, each in a session of its own, once asynchronous and once synchronous."""

import inspect
import pathlib
import sys
import types

import numpy
import pytest

import multiverso as mv
from multiverso import api

BLOCKS = pathlib.Path(__file__).with_name("blocks")


def block(name, replace=()):
    """Returns a code block of the documents, compiled. `replace` holds the changes that a version of a library
    requires.
    """
    text = (BLOCKS / f"{name}.txt").read_text()
    for old, new in dict(replace).items():
        assert text.count(old) == 1, f"{name}: {old!r}"
        text = text.replace(old, new)
    return compile(text, name, "exec")


def fails(kind, words):
    return pytest.raises(kind, match=words)


def same_everywhere(array):
    """Returns whether all ranks hold bit-identical values. Collective."""
    bits = numpy.frombuffer(numpy.ascontiguousarray(array).tobytes(), numpy.uint8).astype(numpy.int32)
    return bool((api._session().all_gather(bits) == bits).all())


def run(names):
    """Runs the cases in `names`, which are its functions with the one argument `sync`: those named on the command line,
    or all.
    """
    functions = [value for value in names.values() if isinstance(value, types.FunctionType)]
    cases = [value for value in functions if [*inspect.signature(value).parameters] == ["sync"]]
    wanted = sys.argv[1:]
    count = 0
    for sync in (False, True):
        for case in cases:
            if wanted and case.__name__ not in wanted:
                continue
            mv.init(sync=sync, timeout=60)
            try:
                case(sync)
            except BaseException:
                print(f"FAILED: {case.__name__}, {'sync' if sync else 'async'}", file=sys.stderr, flush=True)
                raise
            count += 1
            mv.shutdown()
    print(f"{count} passed", flush=True)
