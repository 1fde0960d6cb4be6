"""The line of `recorded` as a LightningModule, and a Trainer that leaves nothing behind."""

import lightning
import torch
from recorded import Line


class Module(lightning.LightningModule):
    """Notes the samples of each training epoch, and those it was validated on."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        self.epochs: list[list[int]] = []
        self.validated: list[int] = []

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch, _):
        self.epochs[-1] += batch["index"].tolist()
        return self.line(**batch)["loss"]

    def validation_step(self, batch, _):
        self.validated += batch["index"].tolist()

    def predict_step(self, batch, _):
        return batch["index"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def trainer_of(**more) -> lightning.Trainer:
    return lightning.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            **more,
        }
    )
