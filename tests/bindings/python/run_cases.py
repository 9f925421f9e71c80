"""Runs the cases of several scripts (cases.py) and sections of docs/python.md in one process, because the import of a
framework takes longer than most cases: run_cases.py a_cases.py b_cases.py 'PyTorch'.
"""

import importlib
import sys
from pathlib import Path

import run_page
from cases import first_rank, run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def leave_process_group():
    """The PyTorch suites start a process group when they need one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()


def main():
    for word in sys.argv[1:]:
        if not word.endswith(".py"):
            print(f"{word}: {run_page.run(PAGE, word)} blocks ran", flush=True)
            continue
        suite = importlib.import_module(word.removesuffix(".py"))
        if first_rank():
            print(f"suite {word}", flush=True)
        run(vars(suite))
        leave_process_group()


if __name__ == "__main__":  # processes that a data loader spawns import this file
    main()
