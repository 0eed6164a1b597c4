import pytest
import torch
from lightning.pytorch import Trainer
from tests.fixtures.tiny_modules import TinyData, TinyModule

from streakline.callbacks.metric_line import MetricLine, format_metrics
from streakline.errors import ConfigError


class PickyModule(TinyModule):
    """Steps by itself, and only on the second batch of each epoch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            self.manual_backward(self._loss(batch))
            self.optimizers().step()


def fit(tmp_path, line, module=None, **options):
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=2,
        callbacks=[line],
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        **options,
    )
    trainer.fit(module or TinyModule(), datamodule=TinyData())


def test_each_step_is_a_line_with_its_metrics(tmp_path, capsys):
    fit(tmp_path, MetricLine(min_seconds=0))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert [line.split("  ")[0] for line in lines] == [f"step {step}/6" for step in range(1, 7)]
    assert all("  loss " in line and "pass" not in line for line in lines)


def test_a_batch_that_took_no_step_says_so(tmp_path, capsys):
    fit(tmp_path, MetricLine(min_seconds=0), PickyModule())
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if "(" in line]
    skipped = "nothing to learn from, still at step"
    assert [line for line in lines if "validation" not in line] == [
        f"{skipped} 0/6",
        "step 1/6",
        f"{skipped} 1/6",
        f"{skipped} 1/6",
        "step 2/6",
        f"{skipped} 2/6",
    ]


def test_batches_whose_gradients_add_up_are_one_line(tmp_path, capsys):
    fit(tmp_path, MetricLine(min_seconds=0), accumulate_grad_batches=2)
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert lines == [f"step {step}/4" for step in range(1, 5)]


def test_validation_is_a_line_of_its_own(tmp_path, capsys):
    fit(tmp_path, MetricLine(min_seconds=0))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("validation")]
    assert [line.split("  ")[0] for line in lines] == ["validation at step 3", "validation at step 6"]
    assert all(line.count("loss") == 1 for line in lines)


def test_fast_steps_are_thinned_out_but_the_first_and_last_are_there(tmp_path, capsys):
    fit(tmp_path, MetricLine(min_seconds=1000))
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert lines == ["step 1/6", "step 6/6"]


def test_what_is_shown_can_be_chosen(tmp_path, capsys):
    fit(tmp_path, MetricLine(show=["train/pass*"], min_seconds=0))
    assert "step 1/6  pass@1 0.5000  (" in capsys.readouterr().out


def test_metrics_come_in_the_order_asked_for_each_once():
    metrics = {"a/x": torch.tensor(1.0), "b/y": 2.0, "a/z": 3.0}
    assert format_metrics(metrics, ["b/*", "a/z", "a/*"]) == "y 2.0000  z 3.0000  x 1.0000"
    assert format_metrics(metrics, []) == ""


def test_what_was_not_measured_is_left_out():
    assert format_metrics({"a": float("nan"), "b": 1.0}, ["*"]) == "b 1.0000"


def test_a_negative_interval_is_refused():
    with pytest.raises(ConfigError, match="at least 0, but got -1"):
        MetricLine(min_seconds=-1)
