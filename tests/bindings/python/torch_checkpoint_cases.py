"""Checkpoints of a whole training loop, on any number of ranks."""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
from cases import raises, run
from torch import nn
from torch_patterns_cases import DistributedOptimizer, equal_on_all

import pleiad
import pleiad.torch


def start():
    return pleiad.init(timeout=600, log_level="off")


class Loop:
    """A training loop with every part that a checkpoint can hold. `batch` is that of all ranks together; by default 8, or 6
    on three ranks."""

    def __init__(self, s, path, dropout=0.0, seed=None, batch=None, **parts):
        torch.manual_seed(s.rank if seed is None else seed)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3))
        adam = torch.optim.Adam(self.model.parameters(), 0.05)
        self.optimizer = DistributedOptimizer(adam, module=self.model)
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 5])
        x = torch.randn(48, 6, generator=torch.Generator().manual_seed(1))
        dataset = torch.utils.data.TensorDataset(x)
        self.batch = batch or 8 // s.size * s.size
        self.loader = pleiad.torch.shard(dataset, batch_size=self.batch // s.size, shuffle=True)
        parts = {"scheduler": self.scheduler, "loader": self.loader, **parts}
        self.checkpoint = pleiad.torch.Checkpoint(path, model=self.model, optimizer=self.optimizer, **parts)
        self.step = 0

    def train(self, steps, save_at=None):
        while self.step < steps:
            for (x,) in self.loader:
                self.optimizer.zero_grad()
                (self.model(x) ** 2).mean().backward()
                self.optimizer.step()
                self.scheduler.step()
                self.step += 1
                if self.step == save_at:
                    self.checkpoint.save(step=self.step)
                if self.step == steps:
                    break

    def values(self):
        return torch.cat([x.detach().view(-1) for x in self.model.parameters()])


def folder_of_all():
    return pathlib.Path(pleiad.broadcast_object(tempfile.mkdtemp()))


def test_a_checkpoint_resumes_bit_for_bit():
    with start() as s:
        folder = folder_of_all()
        whole = Loop(s, folder / "last.pt", dropout=0.3, seed=s.rank)
        assert whole.checkpoint.load() is None
        whole.train(14, save_at=9)
        draws = [torch.rand(1).item(), random.random(), np.random.rand()]
        # Only rank 0 can read the file.
        again = Loop(s, folder / ("last.pt" if s.rank == 0 else "nothing.pt"), dropout=0.3, seed=99)
        np.random.rand()
        assert again.checkpoint.load() == {"step": 9}
        assert again.scheduler.last_epoch == 9 and again.loader.state_dict()["position"] == 9 * again.batch % 48
        again.step = 9
        again.train(14)
        assert torch.equal(again.values(), whole.values())
        assert again.scheduler.get_last_lr() == whole.scheduler.get_last_lr() and torch.rand(1).item() == draws[0]
        equal_on_all(s, again.model)
        s.barrier()
        plain = torch.load(folder / "last.pt", weights_only=True)  # read without Pleiad
        again.model.load_state_dict(plain["model"])
        assert sorted(os.listdir(folder)) == ["last.pt"]
        s.barrier()
        if s.rank == 0:
            shutil.rmtree(folder)


def resume_alone(path, batch):
    """Runs in a process of its own: continues on one rank and saves again."""
    with start() as s:
        loop = Loop(s, path, batch=batch)
        loop.step = loop.checkpoint.load()["step"]
        loop.train(14, save_at=14)


def test_a_checkpoint_is_loaded_by_another_number_of_ranks():
    with start() as s:
        folder = folder_of_all()
        whole = Loop(s, folder / "last.pt")
        whole.train(14, save_at=9)
        if s.rank == 0:
            env = {**os.environ, "PLEIAD_ENGINE": "solo"}  # the launcher's variables belong to this rank
            subprocess.run([sys.executable, __file__, folder / "last.pt", str(whole.batch)], env=env, check=True)
        s.barrier()
        other = Loop(s, folder / "last.pt", seed=7)
        assert other.checkpoint.load() == {"step": 14}
        torch.testing.assert_close(other.values(), whole.values(), rtol=1e-5, atol=1e-6)
        assert other.loader.state_dict() == whole.loader.state_dict()
        equal_on_all(s, other.model)
        drawn = s.all_gather(torch.rand(1)).reshape(-1).tolist()
        assert len(set(drawn)) == s.size  # each rank sets another seed
        s.barrier()
        if s.rank == 0:
            shutil.rmtree(folder)


class Code:
    def __reduce__(self):
        return os.system, ("false",)


def test_bad_files_of_checkpoints():
    with start() as s:
        folder = folder_of_all()
        path = folder / "last.pt"
        loop = Loop(s, path)
        loop.train(2, save_at=1)
        good = path.read_bytes()

        def refused(content, *patterns):
            s.barrier()
            if s.rank == 0:
                path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
            with raises(pleiad.FileError, "last.pt", *patterns):
                loop.checkpoint.load()

        at = len(good) // 2
        refused(b"", "damaged or of another kind")
        refused(b"text" * 99, "damaged or of another kind")
        refused(good[: len(good) // 2], "damaged")
        refused(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], "damaged|cannot be read")
        refused({"model": loop.model.state_dict()}, "another PyTorch file")
        refused({"format": Code()}, "cannot be read", "Weights only|weights_only|Unsupported")
        s.barrier()
        loop.checkpoint.save(step=3)
        content = torch.load(path, weights_only=True)
        refused({**content, "version": 7}, "expected version 1; received 7")
        refused(
            {name: x for name, x in content.items() if name != "loader"}, "expected a part named loader", "optimizer"
        )
        refused({**content, "model": {"0.weight": torch.zeros(1)}}, "cannot restore model", "size mismatch|Missing")
        s.barrier()
        if s.rank == 0:
            path.write_bytes(good)
        s.barrier()
        assert loop.checkpoint.load() == {"step": 1}
        # A failed write leaves the previous file.
        kept, os.fsync = os.fsync, no_space
        with raises(pleiad.FileError, "cannot write", "No space left"):
            loop.checkpoint.save(step=4)
        os.fsync = kept
        assert os.listdir(folder) == ["last.pt"] and path.read_bytes() == good
        with raises(pleiad.FileError, "cannot write", "No such file"):
            pleiad.torch.Checkpoint(folder / "none" / "x.pt", model=loop.model).save()
        with raises(pleiad.InvalidArgument, r"values\.when", "object"):
            loop.checkpoint.save(when=object())
        with raises(pleiad.InvalidArgument, "model: expected state_dict", "int"):
            pleiad.torch.Checkpoint(path, model=7)
        if s.size > 1:
            with raises(pleiad.InvalidArgument, "rank 0 has values {'step': 0}, rank 1 has values {'step': 1}"):
                loop.checkpoint.save(step=s.rank)
        s.barrier()
        if s.rank == 0:
            shutil.rmtree(folder)


def no_space(number):
    raise OSError(28, "No space left on device")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        resume_alone(sys.argv[1], int(sys.argv[2]))
    else:
        run(globals())
