"""Runs cases as one rank and prints the outcome of each as a line of JSON: `runner.py MODULE [CASE...]`."""

import importlib
import json
import os
import sys
import traceback


def case(at_least=1):
    """Marks a case. Every rank of a world of at least `ranks` ranks runs it, and the case starts its own session."""

    def mark(function):
        function.at_least = at_least
        return function

    return mark


def cases_of(module):
    return {name: f for name, f in vars(module).items() if hasattr(f, "at_least")}


def ranks_launched():
    return int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))


def main():
    from binding import Session

    module = importlib.import_module(sys.argv[1])
    cases = cases_of(module)
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    for name in sys.argv[2:] or cases:
        if cases[name].at_least > ranks_launched():
            continue
        problem = None
        try:
            cases[name]()
        except Exception:
            problem = traceback.format_exc()
            for session in list(Session.open):
                session.free()
        line = json.dumps({"case": name, "rank": rank, "problem": problem}) + "\n"
        os.write(1, line.encode())  # one write, so that lines of different ranks do not mix


if __name__ == "__main__":
    main()
