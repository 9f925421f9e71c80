"""Checks histories: what many writers did to counters under faults, as they observed it.

Every add adds one under a key of a table. A writer records the beginning of each add and whether it was acknowledged or
has an
unknown outcome. For each get it records the least and the greatest value. All hosts of a test share one clock.
"""

import numpy

ADD, ADDED, ADD_FAILED, GET, GOT, GET_FAILED = range(1, 7)
RECORD = numpy.dtype(
    [("time", "<i8"), ("event", "<i4"), ("table", "<i4"), ("key", "<i8"), ("low", "<i8"), ("high", "<i8")]
)


def read(path):
    """Returns a rank's records. A last record that is incomplete, because the rank died, is left out."""
    data = path.read_bytes()
    return numpy.frombuffer(data[: len(data) // RECORD.itemsize * RECORD.itemsize], RECORD)


def operations(records, table, key):
    """Returns the operations of one rank: when its adds began, when they were acknowledged, and its reads as (begin,
    end, low, high).
    """
    mine = records[(records["table"] == table) & (records["key"] == key)]
    begun = mine["time"][mine["event"] == ADD]
    acknowledged = mine["time"][mine["event"] == ADDED]
    ends = numpy.flatnonzero(mine["event"] == GOT)
    reads = numpy.stack([mine["time"][ends - 1], mine["time"][ends], mine["low"][ends], mine["high"][ends]], axis=1)
    assert (mine["event"][ends - 1] == GET).all(), "a read without its beginning"
    return begun, acknowledged, reads


def check_counter(name, ranks, *, shared_order=True):
    """Returns the violations in the histories of one counter. `ranks` holds the result of operations() for each rank.

    A read must contain every add that was acknowledged before it began and no add that began after it ended, and
    everything that an
    earlier read contained. With shared_order false, this must hold only for a rank's own adds and reads.
    """
    mistakes = []
    begun = numpy.sort(numpy.concatenate([one[0] for one in ranks]))
    acknowledged = numpy.sort(numpy.concatenate([one[1] for one in ranks]))
    reads = numpy.concatenate([one[2] for one in ranks])
    groups = [(acknowledged, reads)] if shared_order else [(numpy.sort(one[1]), one[2]) for one in ranks]
    for known, looks in groups:
        if not len(looks):
            continue
        least = numpy.searchsorted(known, looks[:, 0])
        for begin, _, low, _ in looks[looks[:, 2] < least]:
            known_then = int(numpy.searchsorted(known, begin))
            mistakes.append(f"{name}: lost: a read holds {low} of {known_then} acknowledged adds")
        # The reads that ended before this one began, and the greatest value that any of them returned.
        by_end = looks[numpy.argsort(looks[:, 1])]
        highest = numpy.maximum.accumulate(by_end[:, 2])
        earlier = numpy.searchsorted(by_end[:, 1], looks[:, 0])
        before = numpy.where(earlier > 0, highest[numpy.maximum(earlier, 1) - 1], 0)
        for _, _, low, _ in looks[looks[:, 2] < before]:
            mistakes.append(f"{name}: went back: a read holds {low}, an earlier one held more")
    most = numpy.searchsorted(begun, reads[:, 1])
    for _, end, _, high in reads[reads[:, 3] > most]:
        begun_then = int(numpy.searchsorted(begun, end))
        mistakes.append(f"{name}: twice: a read holds {high}, {begun_then} adds had begun")
    return mistakes


def check_rounds(name, rank, workers, operations_of_rank):
    """Checks that a worker's k-th read of a synchronous table contains exactly k complete rounds."""
    reads = operations_of_rank[2]
    expected = workers * numpy.arange(1, len(reads) + 1)
    wrong = (reads[:, 2] != expected) | (reads[:, 3] != expected)
    return [
        f"{name}: rank {rank}: read {k + 1} holds {reads[k, 2]} to {reads[k, 3]}, expected {expected[k]}"
        for k in numpy.flatnonzero(wrong)
    ]


def longest_call(records):
    """Returns the longest duration of any completed call, in seconds. Each thread of a rank has tables of its own."""
    longest = 0.0
    for table in numpy.unique(records["table"]):
        mine = records[records["table"] == table]
        if len(mine) > 1:
            began = (mine["event"][:-1] == ADD) | (mine["event"][:-1] == GET)
            took = (mine["time"][1:] - mine["time"][:-1])[began]
            longest = max(longest, took.max(initial=0) / 1e9)
    return longest


def check(histories, *, synchronous=(), bounded=(), private=()):
    """Returns all violations in `histories`, which holds the records of every rank, whether or not it survived.

    Reads of the `synchronous` tables are complete rounds. In `bounded` tables a rank sees its own adds at once and
    others' adds
    later. Each rank has a counter of its own in the tables `private`.
    """
    mistakes = []
    together = numpy.concatenate(histories)
    for table in numpy.unique(together["table"]):
        for key in numpy.unique(together["key"][together["table"] == table]):
            ranks = [operations(records, table, key) for records in histories]
            name = f"table {table}, key {key}"
            if table in synchronous:
                for rank, one in enumerate(ranks):
                    mistakes += check_rounds(name, rank, len(histories), one)
            elif table in private:
                for rank, one in enumerate(ranks):
                    mistakes += check_counter(f"{name}, rank {rank}", [one])
            else:
                mistakes += check_counter(name, ranks, shared_order=table not in bounded)
    return mistakes


def counts(histories):
    """Counts the acknowledged adds and those with an unknown outcome, which failed or whose writer died."""
    together = numpy.concatenate(histories)
    acknowledged = int((together["event"] == ADDED).sum())
    return acknowledged, int((together["event"] == ADD).sum()) - acknowledged
