"""Tests of the tables that hold for any number of workers.

    python -m multiverso.tests.test_multiverso
    mpirun -np 4 python -m multiverso.tests.test_multiverso --sync --repeat 50

Every worker runs the same cases, each of which opens and ends a session. The file is also an introduction to the API.
"""

import argparse
import sys
import unittest

import numpy

import multiverso as mv

ROUNDS = 100
SYNC = False


class TestMultiversoTables(unittest.TestCase):
    def setUp(self) -> None:
        mv.init(sync=SYNC, timeout=60)

    def tearDown(self) -> None:
        mv.shutdown()

    def test_two_adds_a_round_are_seen_by_all_after_a_barrier(self) -> None:
        size = 10000
        table = mv.ArrayTableHandler(size)
        mv.barrier()
        ramp = numpy.arange(1, size + 1, dtype=numpy.float32)
        for i in range(ROUNDS):
            table.add(ramp)
            table.add(range(1, size + 1) if i == 0 else ramp)  # accepts any sequence of numbers
            mv.barrier()
            # Exact comparison, because float32 holds these integers without rounding.
            numpy.testing.assert_array_equal(table.get(), ramp * ((i + 1) * 2 * mv.workers_num()))
            mv.barrier()

    def test_rows_and_whole_matrix_adds_together(self) -> None:
        num_row, num_col = 11, 10
        row_ids = [0, 1, 5, 10]
        workers = mv.workers_num()
        table = mv.MatrixTableHandler(num_row, num_col)
        mv.barrier()
        whole = numpy.arange(num_row * num_col, dtype=numpy.float32).reshape(num_row, num_col)
        for count in range(1, ROUNDS // 5 + 1):
            table.add(range(num_row * num_col))
            table.add([range(row * num_col, (row + 1) * num_col) for row in row_ids], row_ids)
            mv.barrier()
            expected = whole * count * workers
            expected[row_ids] *= 2
            numpy.testing.assert_array_equal(table.get(), expected)
            numpy.testing.assert_array_equal(table.get(row_ids), expected[row_ids])
            mv.barrier()

    def test_of_the_first_values_only_the_masters_count(self) -> None:
        params = numpy.full(7, mv.worker_id() + 1, dtype=numpy.float32)
        table = mv.ArrayTableHandler(7, params)
        mv.barrier()
        numpy.testing.assert_array_equal(table.get(), numpy.ones(7))
        matrix = mv.MatrixTableHandler(2, 3, [[mv.worker_id() + 4] * 3] * 2)
        numpy.testing.assert_array_equal(matrix.get(), numpy.full((2, 3), 4))

    def test_values_of_a_model_kept_in_step(self) -> None:
        """Does what a shared variable of 200 x 200 does: adds the change since the last sync and takes the sum of all."""
        workers = mv.workers_num()
        table = mv.ArrayTableHandler(200 * 200, numpy.zeros((200, 200), numpy.float32))
        mv.barrier()
        last = table.get().reshape(200, 200)
        step = numpy.arange(200 * 200, dtype=numpy.float32).reshape(200, 200) % 100
        for i in range(1, 11):
            current = last + step
            table.add(current - last, sync=True)
            mv.barrier()
            last = table.get().reshape(200, 200)
            numpy.testing.assert_array_equal(last, step * i * workers)
            mv.barrier()


def main() -> None:
    global SYNC
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sync", action="store_true", help="with synchronous tables")
    parser.add_argument("--repeat", type=int, default=1, help="how often to run the cases")
    options, rest = parser.parse_known_args()
    SYNC = options.sync
    for time in range(options.repeat):
        program = unittest.main(module=__name__, argv=[sys.argv[0], *rest], exit=False)
        if not program.result.wasSuccessful():
            sys.exit(f"run {time + 1} of {options.repeat} failed")
    print(f"{options.repeat} runs passed")


if __name__ == "__main__":
    main()
