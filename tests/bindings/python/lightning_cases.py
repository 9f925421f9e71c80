"""Lightning over Pleiad, compared with Lightning on DDP with gloo in the same run."""

import lightning
import torch
import torch.distributed
from cases import run
from libraries_cases import BATCH, EPOCHS, Model, Samples, both, refused, torchrun, world

import pleiad
import pleiad.torch


def lightning_fit(model, **more):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            loss = self.model(**batch)["loss"]
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.01)

    off = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", **off, **more)
    trainer.fit(Module(), torch.utils.data.DataLoader(Samples(), BATCH, shuffle=True))


def test_lightning_on_each_rank_alone_raises():
    with world() as s:
        if s.size == 1:
            return
        if not torchrun():
            with refused(s):
                lightning_fit(Model(), devices=1)
        pleiad.torch.init_process_group()
        with refused(s):  # without strategy="ddp"
            lightning_fit(Model(), devices=1)
        torch.distributed.destroy_process_group()


def test_lightning():
    with world() as s:

        def train():
            model = Model(seed=3 + s.rank)
            lightning_fit(model, strategy="ddp", devices=s.size // s.hosts, num_nodes=s.hosts)
            return model, model.seen

        both(s, train)


if __name__ == "__main__":
    run(globals())
