"""Trainer of transformers, and accelerate, over Pleiad, compared with the same library on DDP with gloo in the same
run.
"""

import contextlib
import os
import tempfile

import torch
import torch.distributed
from cases import raises, run
from process_group_cases import start, start_gloo
from torch import nn

import pleiad
import pleiad.torch

torch.set_num_threads(1)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sessions = []
SAMPLES, BATCH, EPOCHS = 24, 2, 2  # divisible by 1, 2 and 3 ranks


@contextlib.contextmanager
def world():
    """One session for all cases: Lightning initialises MPI, and after that a rank of `pleiad launch` cannot start
    another session.
    """
    if not sessions:
        sessions.append(start())
    if torch.distributed.is_initialized():  # under torchrun the previous case may have left a process group
        torch.distributed.destroy_process_group()
    yield sessions[0]


def both(s, train):
    """Runs `train` over Pleiad and over gloo. Returns both models, and the samples that each one has used on this rank."""
    pleiad.torch.init_process_group()
    ours, seen = train()
    start_gloo(s)
    theirs, same = train()
    torch.distributed.destroy_process_group()
    assert seen == same, f"{seen} over Pleiad, {same} over gloo"
    for (name, x), y in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if s.size <= 2:
            assert torch.equal(x, y), f"{name}: largest difference {(x - y).abs().max()}"
        else:
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)
        rows = s.all_gather(x.detach().contiguous())
        assert (rows == rows[0]).all(), f"{name} differs between ranks"
    each_sample_once(seen)


def each_sample_once(seen):
    everyone = pleiad.all_gather_object(seen)
    assert len({len(x) for x in everyone}) == 1, f"unequal numbers of samples: {everyone}"
    for epoch in range(EPOCHS):
        share = len(seen) // EPOCHS
        found = sorted(i for rank in everyone for i in rank[epoch * share : (epoch + 1) * share])
        assert found == list(range(SAMPLES)), f"epoch {epoch}: samples {found}"


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.x[i, :3] * 2, "index": i}


class Model(nn.Module):
    """A model that records its training samples."""

    def __init__(self, seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.seen = []

    def forward(self, x, labels, index):
        self.seen += index.tolist()
        return {"loss": ((self.net(x) - labels) ** 2).mean()}


def hugging_face(model, folder, **more):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=BATCH,
        num_train_epochs=EPOCHS,
        learning_rate=0.01,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        **more,
    )
    return Trainer(model, arguments, train_dataset=Samples())


def test_an_optimizer_that_is_wrapped_needs_no_process_group():
    with world() as s, tempfile.TemporaryDirectory() as folder:
        model = Model(seed=3 + s.rank)
        trainer = hugging_face(model, folder)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer.optimizer = pleiad.torch.DistributedOptimizer(optimizer, module=model)
        trainer.train_dataset = torch.utils.data.Subset(Samples(), range(s.rank, SAMPLES, s.size))
        trainer.train()
        for x in model.parameters():
            rows = s.all_gather(x.detach().contiguous())
            assert (rows == rows[0]).all()
        each_sample_once(model.seen)


def refused(s):
    """Expects the error that a library would train one model per rank."""
    return raises(pleiad.StateError, f"each of the {s.size} ranks would train a model of its own", "init_process_group")


def torchrun():
    """Under torchrun these libraries start a gloo process group of their own, if there is none. Without a GPU and without
    ACCELERATE_USE_CPU, accelerate does not use it."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def accelerate_step(model):
    import accelerate

    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    optimizer = accelerate.Accelerator().prepare(torch.optim.SGD(model.parameters(), 0.1))
    model(**torch.utils.data.default_collate([Samples()[0]]))["loss"].backward()
    optimizer.step()


def test_libraries_that_would_train_a_model_on_each_rank_raise():
    with world() as s, tempfile.TemporaryDirectory() as folder:
        if s.size == 1:
            return
        with refused(s):
            hugging_face(Model(), folder).train()
        with refused(s):
            accelerate_step(Model())
        if torchrun():
            torch.distributed.destroy_process_group()  # accelerate started it and does not use it
        pleiad.torch.init_process_group()
        with refused(s):
            accelerate_step(Model())  # a model that accelerate has not prepared
        torch.distributed.destroy_process_group()
        pleiad.torch.init_process_group(check=False)
        accelerate_step(Model())
        torch.distributed.destroy_process_group()


def test_trainer_of_transformers():
    with world() as s, tempfile.TemporaryDirectory() as folder:

        def train():
            model = Model(seed=3 + s.rank)  # all ranks begin with rank 0's parameters
            hugging_face(model, folder, gradient_accumulation_steps=2).train()
            return model, model.seen

        both(s, train)


def test_accelerate():
    import accelerate

    with world() as s:

        def train():
            accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
            accelerator = accelerate.Accelerator()
            assert accelerator.num_processes == s.size
            model = Model(seed=3 + s.rank)
            loader = torch.utils.data.DataLoader(Samples(), BATCH, shuffle=True)
            optimizer = torch.optim.Adam(model.parameters(), 0.01)
            wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for _ in range(EPOCHS):
                for batch in loader:
                    optimizer.zero_grad()
                    loss = wrapped(**batch)["loss"]
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(wrapped.parameters(), 1.0)
                    optimizer.step()
                assert len(accelerator.gather(loss.detach().reshape(1))) == s.size
            return model, model.seen

        both(s, train)


if __name__ == "__main__":
    run(globals())
