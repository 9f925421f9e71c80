"""Metrics and Python objects of all ranks, in a world of any size."""

import numpy as np
from cases import raises, run

import pleiad

Bad = pleiad.InvalidArgument


def start():
    return pleiad.init(timeout=600, log_level="off")


def test_the_mean_of_metrics():
    with start() as s:
        assert pleiad.mean(s.rank) == (s.size - 1) / 2
        made = pleiad.mean({"loss": float(s.rank), "hits": np.full(2, s.rank + 1)}, weight=s.rank + 1)
        weights = np.arange(1, s.size + 1)
        np.testing.assert_allclose(made["loss"], (weights * (weights - 1)).sum() / weights.sum())
        np.testing.assert_allclose(made["hits"], [(weights**2).sum() / weights.sum()] * 2)
        # A rank without samples may pass NaN.
        assert pleiad.mean(1.0 if s.rank == 0 else float("nan"), weight=1 if s.rank == 0 else 0) == 1.0
        with raises(Bad, "weight", "-1"):
            pleiad.mean(1.0, weight=-1)
        with raises(Bad, "0 on all ranks"):
            pleiad.mean(1.0, weight=0)
        with raises(Bad, "expected numbers", "of loss"):
            pleiad.mean({"loss": "low"})
        if s.size > 1:
            with raises(Bad, "rank 0 has loss", "rank 1 has cost"):
                pleiad.mean({"cost" if s.rank == 1 else "loss": 1.0})


def test_python_objects():
    with start() as s:
        mine = {"rank": s.rank, "names": ["a"] * (100 * s.rank)}
        everyone = pleiad.all_gather_object(mine)
        assert [x["rank"] for x in everyone] == list(range(s.size)) and len(everyone[-1]["names"]) == 100 * (s.size - 1)
        assert pleiad.broadcast_object(mine, s.size - 1) == everyone[-1]
        with raises(Bad, "root", str(s.size)):
            pleiad.broadcast_object(1, s.size)
        with raises(Bad, f"rank {s.size - 1} cannot be pickled"):
            pleiad.all_gather_object((lambda: 1) if s.rank == s.size - 1 else 1)
        assert pleiad.broadcast_object("after") == "after"


def test_the_part_of_each_rank():
    with start() as s:
        x, y = np.arange(7), np.arange(14).reshape(7, 2)
        part = pleiad.shard({"x": x, "y": y}, uneven="keep")
        assert (part["y"][:, 0] == 2 * part["x"]).all() and part["x"].tolist() == list(range(s.rank, 7, s.size))
        mine, other = pleiad.shard((x, y))
        assert len(mine) == len(other) == -(-7 // s.size)
        assert (pleiad.shard(x, uneven="drop") == np.arange(s.rank, 7 // s.size * s.size, s.size)).all()
        sampler = pleiad.Sampler(7, shuffle=True, uneven="keep")
        for epoch in range(2):
            assert sampler.epoch == epoch
            read = pleiad.all_gather_object([int(i) for rows in sampler.batches(2) for i in rows])
            assert sorted(sum(read, [])) == list(range(7))
        for i, _ in enumerate(sampler):
            if i == 0:
                break  # the next iteration is the next epoch
        assert len(list(sampler)) == len(sampler) and sampler.epoch == 4
        with raises(Bad, "same number of samples", r"\[6, 7\]"):
            pleiad.shard((x, y[:6]))
        with raises(Bad, "received str"):
            pleiad.shard("text")


if __name__ == "__main__":
    run(globals())
