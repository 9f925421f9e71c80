"""What Pleiad raises. Every class is an `Error`, and one of Python's own that fits, so either can be caught.

>>> import pleiad
>>> issubclass(pleiad.InvalidArgument, ValueError)
True
"""

import builtins


class Error(Exception):
    """Any failure of Pleiad's."""


class InvalidArgument(Error, ValueError):
    """The caller's mistake; the message says what was expected and what came."""


class StateError(Error, RuntimeError):
    """Called before init, after shutdown, in a child process, or by two threads where one is allowed."""


class OrderError(Error, RuntimeError):
    """The ranks called a synchronous table or a collective differently."""


class TransportError(Error, ConnectionError):
    """Another rank died or cannot be reached."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed; the message says whom the call waited for."""


class MemoryError(Error, builtins.MemoryError):
    """Memory could not be allocated."""


class Interrupted(Error, RuntimeError):
    """The wait was given up on the caller's request. Ctrl-C raises KeyboardInterrupt instead."""


class FileError(Error, OSError):
    """A file is missing, damaged or cannot be written; the message names it."""


class RuleError(Error, RuntimeError):
    """An update rule of the user's failed; the message has its words. The add may have been carried out in part."""


class InternalError(Error, RuntimeError):
    """A defect of Pleiad's."""
