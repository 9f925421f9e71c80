"""Several faults at once on several hosts, and the checker that reads the histories."""

import chaos
import history
import numpy
import pytest
from hosts import need_root


def record(events):
    """Returns a history of (time, event, low, high) on one counter."""
    records = numpy.zeros(len(events), history.RECORD)
    for i, (time, event, low, high) in enumerate(events):
        records[i] = (time, event, 0, 0, low, high)
    return records


def adds(*times):
    """Returns acknowledged adds that begin at these times and take one unit."""
    return [line for time in times for line in ((time, history.ADD, 0, 0), (time + 1, history.ADDED, 0, 0))]


def get(begin, end, low, high=None):
    return [(begin, history.GET, 0, 0), (end, history.GOT, low, low if high is None else high)]


def failed_add(time):
    return [(time, history.ADD, 0, 0), (time + 1, history.ADD_FAILED, 0, 0)]


@pytest.mark.parametrize(
    ("ranks", "mistake"),
    [
        pytest.param([adds(0, 10) + get(20, 21, 2)], None, id="right"),
        pytest.param([adds(0) + failed_add(5) + get(20, 21, 1)], None, id="an unknown add that is not there"),
        pytest.param([adds(0) + failed_add(5) + get(20, 21, 2)], None, id="an unknown add that is there"),
        pytest.param([adds(0) + failed_add(5) + get(20, 21, 1, 2)], None, id="an unknown add that is there in part"),
        pytest.param([adds(0, 10), get(5, 6, 1) + get(10, 11, 2)], None, id="an add that is seen before it is acknowledged"),
        pytest.param([adds(0, 10) + get(20, 21, 1)], "lost", id="a lost add"),
        pytest.param([adds(0, 10) + get(20, 21, 1, 2)], "lost", id="an add that is lost in part"),
        pytest.param([adds(0, 10), get(20, 21, 1)], "lost", id="an add that another rank does not see"),
        pytest.param([adds(0, 10) + get(20, 21, 3)], "twice", id="an add that was applied twice"),
        pytest.param([adds(0) + failed_add(5) + get(20, 21, 3)], "twice", id="an unknown add that was applied twice"),
        pytest.param([get(0, 1, 1) + adds(10)], "twice", id="a value out of nowhere"),
        pytest.param([failed_add(0) + get(5, 6, 1) + get(7, 8, 0)], "went back", id="a read that goes back"),
        pytest.param([failed_add(0) + get(5, 6, 1), get(7, 8, 0)], "went back", id="a read of another rank that goes back"),
    ],
)  # fmt: skip
def test_the_checker_distinguishes_valid_from_invalid_histories(ranks, mistake):
    mistakes = history.check([record(events) for events in ranks])
    assert [bool(mistakes)] == [mistake is not None], mistakes
    assert mistake is None or mistake in mistakes[0]


@pytest.mark.parametrize(("second", "right"), [(4, True), (3, False), (5, False)])
def test_a_read_of_a_synchronous_table_is_a_complete_round(second, right):
    ranks = [record(adds(0) + get(2, 3, 2) + adds(10) + get(12, 13, second)), record(adds(0) + get(2, 3, 2))]
    assert (history.check(ranks, synchronous=[0]) == []) == right


def test_a_history_that_a_death_cut_short_is_read(tmp_path):
    whole = record(adds(0, 10)).tobytes()
    (tmp_path / "history").write_bytes(whole + whole[:7])
    assert history.counts([history.read(tmp_path / "history")]) == (2, 0)


@pytest.fixture
def folders(tmp_path):
    need_root()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_thirty_faults_lose_nothing_and_apply_nothing_twice(build_dir, folders):
    total = 0
    for seed, name in ((0, "a"), (1, "b")):
        faults, acknowledged, unknown, longest, mistakes = chaos.run_job(
            build_dir, folders / name, seed, faults=15, kills=1
        )
        assert mistakes == [], f"seed {seed}: {mistakes[:5]}"
        assert acknowledged > 100, (acknowledged, unknown)
        total += faults.total()
        print(f"{dict(faults)}: {acknowledged} adds acknowledged, {unknown} unknown, the longest call {longest:.1f} s")
    assert total >= 30


def test_the_checker_notices_that_deduplication_is_switched_off(build_dir, folders):
    """Requests are delivered twice, as after a lost reply, and the service must carry them out once only."""
    words = ("--twice", "--no-deduplication")
    result = chaos.run_job(build_dir, folders / "a", 1, faults=0, kills=0, words=words, adds=3000)
    assert any("twice" in mistake for mistake in result[4]), result
