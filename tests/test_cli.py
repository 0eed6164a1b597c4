"""The command line, on a tiny module: how files compose, what `last` means, and how it complains."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
import yaml
from mlflow.tracking import MlflowClient
from tests.fixtures.tiny_config import DATA, MODULE, TINY, write_yaml

from streakline.cli import StreaklineCLI, main


@pytest.fixture
def tiny():
    """Path of a configuration that says everything."""
    return write_yaml("configs/experiment/tiny.yaml", TINY)


@pytest.fixture
def tracked(mlflow_store):
    """The same, with an MLflow run."""
    config = deepcopy(TINY)
    del config["trainer"]["logger"]
    return write_yaml("configs/experiment/tracked.yaml", config)


def build(*arguments):
    """Build everything, and run nothing."""
    return StreaklineCLI(list(arguments), run=False)


def complaint(capsys, *arguments):
    """The one line that a command ends with, and its exit status."""
    status = main(list(arguments))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("streakline: ")]
    assert len(lines) == 1, lines
    return lines[0].removeprefix("streakline: "), status


# Composition


def test_later_files_win_and_what_they_do_not_say_stays(tiny):
    first = write_yaml("a.yaml", {"model": {"init_args": {"config": {"high": 0.3}, "width": 5}}})
    second = write_yaml("b.yaml", {"model": {"init_args": {"width": 6}}})
    model = build("--config", tiny, "--config", first, "--config", second, "--model.config.low", "0.05").model
    assert (model.config.low, model.config.high, model.width) == (0.05, 0.3, 6)


def test_a_list_in_a_later_file_replaces_the_earlier_one(tiny):
    first = write_yaml("a.yaml", {"data": {"init_args": {"sizes": [1, 2, 3]}}})
    second = write_yaml("b.yaml", {"data": {"init_args": {"sizes": [4]}}})
    assert build("--config", tiny, "--config", first, "--config", second).datamodule.sizes == [4]


def test_callbacks_can_be_appended_while_standing_ones_merge_by_key(tiny):
    timer = {"class_path": "lightning.pytorch.callbacks.Timer"}
    stop = {"class_path": "lightning.pytorch.callbacks.EarlyStopping", "init_args": {"monitor": "train/loss"}}
    first = write_yaml("a.yaml", {"trainer": {"callbacks": [timer]}, "metric_line": {"min_seconds": 7.0}})
    second = write_yaml("b.yaml", {"trainer": {"callbacks+": [stop]}, "checkpoint": {"save_top_k": -1}})
    cli = build("--config", tiny, "--config", first, "--config", second)
    names = [type(callback).__name__ for callback in cli.trainer.callbacks]
    assert {"Timer", "EarlyStopping", "RunCheckpoint", "MetricLine", "RolloutLog", "Export"} <= set(names)
    assert len(names) == len(set(names))
    assert cli.config["checkpoint"]["save_last"] is True
    assert cli.config["checkpoint"]["save_top_k"] == -1
    assert cli.config["metric_line"]["min_seconds"] == 7.0


def test_a_file_named_in_a_file_is_found_from_there(tiny):
    write_yaml("configs/algorithm/wide.yaml", {"low": 0.01, "high": 0.9})
    write_yaml("configs/model/tiny.yaml", {"class_path": MODULE, "init_args": {"config": "../algorithm/wide.yaml"}})
    path = write_yaml("configs/experiment/nested.yaml", TINY | {"model": "../model/tiny.yaml"})
    model = build("--config", path, "--model.config.high", "0.8").model
    assert (model.config.low, model.config.high) == (0.01, 0.8)


def test_base_yaml_of_the_current_folder_fills_in_what_nobody_says(tiny):
    write_yaml("configs/base.yaml", {"trainer": {"max_epochs": 9, "gradient_clip_val": 0.5}})
    trainer = build("--config", tiny).trainer
    assert (trainer.max_epochs, trainer.gradient_clip_val) == (1, 0.5)


def test_a_new_optimizer_with_full_arguments_keeps_nothing_of_the_old_one(tiny):
    full = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.1, "betas": [0.9, 0.99], "weight_decay": 0.5}}
    first = write_yaml("a.yaml", {"model": {"init_args": {"optimizer": full}}})
    plain = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.2, "momentum": 0.0, "weight_decay": 0.0}}
    second = write_yaml("b.yaml", {"model": {"init_args": {"optimizer": plain}}})
    cli = build("--config", tiny, "--config", first, "--config", second)
    cli.model.configure_model()
    optimizer = cli.model.configure_optimizers()
    assert isinstance(optimizer, torch.optim.SGD)
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.2, 0.0)


def test_the_seed_of_the_run_is_that_of_everything(tiny):
    cli = build("--config", tiny, "--run.seed", "7")
    assert (cli.config["seed_everything"], cli.model.seed, cli.datamodule.seed) == (7, 7, 7)


# Complaints


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--model.config.hihg", "3"), "hihg"),
        (("--model.config.hig", "3"), "hig"),
        (("--model.config.high", "much"), "Expected `model.config.high` to be of type float, but got 'much'"),
        (("--trainer.max_epoch", "3"), "`trainer.max_epoch`: did you mean `max_epochs`"),
        (("--trainer.max_steps", "abc"), "Expected `trainer.max_steps` to be of type int, but got 'abc'"),
        (("--metric_line.min_seconds", "-1"), "at least 0, but got -1"),
        (("--run.name", "a/b"), "Expected `run.name`"),
        (("--model.class_path", "nowhere.Module"), "nowhere"),
        (("--config", "missing.yaml"), "missing.yaml"),
        (("--config", "configs"), "Path is not a file"),
        (("--config",), "--config: expected one argument"),
        (("--trainer.default_root_dir", "elsewhere"), "Expected `trainer.default_root_dir` to be left to `run.root`"),
        (("--ckpt_path", "missing.ckpt"), "Expected `ckpt_path` to be `last` or an existing file"),
        (("--weights_only", "false"), "weights_only"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tiny, capsys, option, said):
    line, status = complaint(capsys, "fit", "--config", tiny, *option)
    assert said in line
    assert status != 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"trainer": {"max_epoch": 3}}, "`trainer.max_epoch`: did you mean `max_epochs`"),
        ({"metric_lin": {"min_seconds": 3}}, "`metric_lin`: did you mean `metric_line`?"),
        ({"model": {"init_args": {"config": {"hihg": 3}}}}, "`model.config.hihg`: did you mean `high`?"),
        ({"model": "missing/model.yaml"}, "`model` to name a file of options, but got 'missing/model.yaml'"),
        ({"trainer": None, "run": {"name": "x"}}, "a usable `trainer`, but got: no options"),
        ("trainer: [", "Expected YAML"),
        ("", "but got nothing"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tiny, capsys, content, said):
    line, status = complaint(capsys, "fit", "--config", tiny, "--config", write_yaml("wrong.yaml", content))
    assert said in line
    assert "wrong.yaml" in line
    assert status == 2


def test_a_command_without_a_model_is_one_clear_line(capsys):
    line, status = complaint(capsys, "fit")
    assert line.startswith("Expected `data` and `model` to be given, for instance by --config")
    assert status == 2


def test_arguments_without_a_class_are_one_clear_line(capsys):
    path = write_yaml("part.yaml", {"model": {"init_args": {"width": 3}}})
    line, _ = complaint(capsys, "fit", "--config", path)
    assert (
        line == "Expected `model.class_path` before its arguments, here or in an earlier --config (part.yaml, line 1)"
    )


def test_a_full_disk_is_one_clear_line_and_what_was_saved_stays(tiny, capsys):
    line, status = complaint(capsys, "fit", "--config", tiny, "--trainer.max_epochs", "3", "--model.fail_at", "5")
    assert line.endswith("No space left on device")
    assert status == 1
    assert torch.load("mlruns/exp/one/checkpoints/last.ckpt", weights_only=True)["global_step"] == 4


def test_a_traceback_is_shown_where_it_is_asked_for(tiny, monkeypatch):
    monkeypatch.setenv("STREAKLINE_DEBUG", "1")
    with pytest.raises(Exception, match="Expected `run\\.name`"):
        main(["fit", "--config", tiny, "--run.name", "a/b"])


# Checkpoints


def fit(*arguments):
    assert main(["fit", *arguments]) == 0
    return torch.load("mlruns/exp/one/checkpoints/last.ckpt", weights_only=True)


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_the_other_commands_run_on_the_last_checkpoint(tiny, command):
    fit("--config", tiny)
    assert main([command, "--config", tiny, "--ckpt_path", "last"]) == 0


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_without_a_checkpoint_only_fit_takes_last(tiny, capsys, command):
    line, _ = complaint(capsys, command, "--config", tiny, "--ckpt_path", "last")
    assert line == "Expected a checkpoint in mlruns/exp/one/checkpoints, but there is none"


def test_last_starts_fresh_and_says_so_where_there_is_none_and_resumes_where_there_is(tiny, capsys):
    first = fit("--config", tiny, "--ckpt_path", "last")
    assert "no checkpoint in mlruns/exp/one/checkpoints yet: starting fresh" in capsys.readouterr().out
    second = fit("--config", tiny, "--ckpt_path", "last", "--trainer.max_epochs", "2")
    assert "resumed at step 3" in capsys.readouterr().out
    assert (first["global_step"], second["global_step"]) == (3, 6)


def test_a_resumed_run_equals_one_that_never_stopped(tiny):
    fit("--config", tiny, "--run.name", "one")
    resumed = fit("--config", tiny, "--ckpt_path", "last", "--trainer.max_epochs", "3")
    whole = fit("--config", tiny, "--trainer.max_epochs", "3")
    assert torch.equal(resumed["state_dict"]["layer.weight"], whole["state_dict"]["layer.weight"])


def test_a_fresh_run_of_the_same_name_keeps_the_earlier_one_apart(tiny, capsys):
    fit("--config", tiny, "--trainer.max_epochs", "2")
    assert fit("--config", tiny)["global_step"] == 3
    assert "earlier run of the same name kept as mlruns/exp/one.1" in capsys.readouterr().out
    assert torch.load("mlruns/exp/one.1/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6


def test_a_checkpoint_of_another_run_starts_a_run_of_its_own(tiny):
    fit("--config", tiny)
    other = "mlruns/exp/one/checkpoints/last.ckpt"
    assert main(["fit", "--config", tiny, "--run.name", "two", "--ckpt_path", other, "--trainer.max_epochs", "2"]) == 0
    assert torch.load("mlruns/exp/two/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6
    assert not Path("mlruns/exp/one.1").exists()


def test_what_a_checkpoint_says_of_its_arguments_never_overrides_files_and_command_line(tiny):
    module = {"class_path": "tests.fixtures.tiny_modules.HyperparameterModule", "init_args": {"note": "old"}}
    path = write_yaml("hyper.yaml", TINY | {"model": module})
    checkpoint = fit("--config", path)
    assert checkpoint["hyper_parameters"]["note"] == "old"
    arguments = ["--config", path, "--model.note", "new", "--ckpt_path", "last"]
    cli = StreaklineCLI(["validate", *arguments])
    assert cli.model.note == "new"


def test_a_checkpoint_that_could_run_code_is_refused(tiny, capsys):
    checkpoint = fit("--config", tiny)
    torch.save(checkpoint | {"exotic": Path("x")}, "mlruns/exp/one/checkpoints/last.ckpt")
    line, status = complaint(capsys, "test", "--config", tiny, "--ckpt_path", "last")
    assert "plain types and tensors only" in line
    assert status == 1


# MLflow


def test_the_composed_configuration_is_logged_whole(tracked, mlflow_store, tmp_path):
    note = "n" * 3000
    assert main(["fit", "--config", tracked, "--model.note", note]) == 0
    client = MlflowClient(mlflow_store)
    run = client.get_run(Path("mlruns/exp/one/mlflow_run_id").read_text())
    assert run.data.params["model.init_args.note"] == note
    assert run.data.params["model.init_args.optimizer.init_args.momentum"] == "0.9"
    assert run.data.tags["config_sha256.fit"] == run.data.params["config_sha256"]
    stored = Path(client.download_artifacts(run.info.run_id, "config/config.yaml", str(tmp_path))).read_text()
    assert stored == Path("mlruns/exp/one/config.yaml").read_text()
    assert yaml.safe_load(stored)["model"]["init_args"]["note"] == note


def test_the_stored_configuration_repeats_the_run(tracked):
    first = fit("--config", tracked, "--run.seed", "3")
    Path("mlruns/exp/one/config.yaml").rename("again.yaml")
    again = fit("--config", "again.yaml")
    assert torch.equal(first["state_dict"]["layer.weight"], again["state_dict"]["layer.weight"])


def test_a_resumed_and_then_tested_run_is_one_mlflow_run(tracked, mlflow_store):
    fit("--config", tracked)
    before = Path("mlruns/exp/one/mlflow_run_id").read_text()
    fit("--config", tracked, "--ckpt_path", "last", "--trainer.max_epochs", "2")
    assert main(["test", "--config", tracked, "--ckpt_path", "last"]) == 0
    assert Path("mlruns/exp/one/mlflow_run_id").read_text() == before
    client = MlflowClient(mlflow_store)
    run = client.get_run(before)
    assert [metric.step for metric in client.get_metric_history(before, "train/pass_at_1")] == [0, 1, 2, 3, 4, 5]
    assert "test/loss" in run.data.metrics
    assert "trainer.max_epochs" in run.data.tags["changed_parameters"]
    assert run.info.status == "FINISHED"


def test_everything_of_a_run_lies_in_its_folder(tracked):
    fit("--config", tracked)
    names = {path.name for path in Path("mlruns/exp/one").iterdir()}
    assert names == {"checkpoints", "config.yaml", "mlflow_run_id"}
    assert {path.name for path in Path("mlruns").iterdir()} == {"exp", "mlflow.db", ".mlflow.lock", "artifacts"}
    assert {path.name for path in Path().iterdir()} == {"configs", "mlruns"}


def test_a_store_that_cannot_be_used_is_one_line_before_any_work(tracked, capsys):
    Path("mlruns/mlflow.db").write_bytes(b"not a database" * 100)
    line, status = complaint(capsys, "fit", "--config", tracked)
    assert "Expected to write to the MLflow store sqlite:///mlruns/mlflow.db" in line
    assert status == 1
    assert not Path("mlruns/exp/one/checkpoints").exists()


def test_a_store_that_cannot_be_used_leaves_the_earlier_run_where_it_is(tracked, capsys):
    fit("--config", tracked)
    Path("mlruns/mlflow.db").write_bytes(b"not a database" * 100)
    complaint(capsys, "fit", "--config", tracked)
    assert Path("mlruns/exp/one/checkpoints/last.ckpt").is_file()
    assert not Path("mlruns/exp/one.1").exists()


def test_building_touches_neither_store_nor_run_folder(tracked):
    assert build("--config", tracked).datamodule.__class__.__name__ == DATA.rsplit(".", 1)[1]
    assert not Path("mlruns/exp").exists()


# On the real modules


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--model.grpo.group_size", "1", "`grpo.group_size` to be at least 2"),
        ("--model.sampling.temperature", "-1", "temperature"),
        ("--data.batch_size", "-1", "batch_size"),
    ],
)
def test_a_value_out_of_range_is_one_clear_line(monkeypatch, capsys, option, value, said):
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    line, status = complaint(capsys, "fit", "--config", "configs/experiment/quickstart_grpo.yaml", option, value)
    assert line.startswith("Expected ")
    assert said in line
    assert status == 2


def test_an_abbreviated_option_is_refused_at_any_depth(monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    option = ("--model.sampling.max_new_token", "4")
    line, status = complaint(capsys, "fit", "--config", "configs/experiment/quickstart_grpo.yaml", *option)
    assert "max_new_token" in line
    assert status == 2


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file"], ids=["empty", "truncated"])
def test_a_damaged_checkpoint_is_one_clear_line(tiny, capsys, content):
    Path("broken.ckpt").write_bytes(content)
    line, _ = complaint(capsys, "fit", "--config", tiny, "--ckpt_path", "broken.ckpt")
    assert line == "Expected broken.ckpt to be a whole checkpoint, but it is damaged or of another kind"


def test_a_file_that_is_no_checkpoint_is_one_clear_line(tiny, capsys):
    torch.save({"a": 1}, "other.ckpt")
    line, _ = complaint(capsys, "fit", "--config", tiny, "--ckpt_path", "other.ckpt")
    assert "to hold a Lightning checkpoint" in line
