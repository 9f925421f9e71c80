"""The exceptions of Pleiad. Each class derives from `Error` and from the matching built-in class, so either can be caught.

>>> import pleiad
>>> issubclass(pleiad.InvalidArgument, ValueError)
True
"""

import builtins


class Error(Exception):
    """The base class of all exceptions of Pleiad."""


class InvalidArgument(Error, ValueError):
    """The caller passed a wrong argument; the message says what was expected and what was received."""


class StateError(Error, RuntimeError):
    """A call came before init, after shutdown, in a forked child, or from two threads where only one is allowed."""


class OrderError(Error, RuntimeError):
    """The ranks called synchronous tables or collectives in different orders or with different arguments."""


class TransportError(Error, ConnectionError):
    """Another rank died or cannot be reached."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed; the message says which rank the call waited for."""


class MemoryError(Error, builtins.MemoryError):
    """Memory could not be allocated."""


class Interrupted(Error, RuntimeError):
    """The caller asked to interrupt a wait. Ctrl-C raises KeyboardInterrupt instead."""


class FileError(Error, OSError):
    """A file is missing, is damaged or cannot be written; the message names it."""


class RuleError(Error, RuntimeError):
    """A user-defined update rule raised; the message contains its error. The add may be partly applied."""


class InternalError(Error, RuntimeError):
    """A bug in Pleiad."""
