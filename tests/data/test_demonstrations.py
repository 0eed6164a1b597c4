import pytest
from lightning.pytorch import LightningModule, Trainer
from tests.fixtures.tiny_agents import (
    Dialogues,
    EchoEnvironment,
    demonstration_data,
    policy_folder,
    sft_module,
    task_set,
    trainer,
)

from streakline.data.demonstrations import DemonstrationDataModule, encode_demonstrations
from streakline.errors import ConfigError, DataError
from streakline.types import TrainingBatch


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return sft_module(policy_folder(tmp_path_factory.mktemp("policy")))


def _ready(data: DemonstrationDataModule, module, tmp_path, stage="fit"):
    run: Trainer = trainer(tmp_path)
    run.strategy.connect(module)
    run.strategy._lightning_module = module
    data.trainer = run
    data.setup(stage)
    return data


def test_an_epoch_holds_every_demonstration_once(module, tmp_path):
    data = _ready(demonstration_data(size=7, batch_size=3), module, tmp_path)
    loader = data.train_dataloader()
    loader._progress = None  # no fit loop is running

    batches = list(loader)

    assert [len(batch.input_ids) for batch in batches].count(3) == 2
    assert sum(len(batch.input_ids) for batch in batches) == 7
    assert all(isinstance(batch, TrainingBatch) for batch in batches)


def test_demonstrations_are_read_and_encoded_once(module, tmp_path):
    reads = []

    class Counted(Dialogues):
        def conversations(self, *, limit=None):
            reads.append(limit)
            return super().conversations(limit=limit)

    data = DemonstrationDataModule(train=Counted(4), environment=EchoEnvironment, limit=3)
    _ready(data, module, tmp_path)
    data.setup("fit")

    assert reads == [3]


def test_longer_ones_are_left_out_with_a_warning(module):
    conversations = Dialogues(10).conversations()
    lengths = [len(row.sample.token_ids) for row in encode_demonstrations(conversations, renderer=module.renderer())]
    limit = sorted(lengths)[4]

    with pytest.warns(UserWarning, match=f"of 10 rows longer than {limit} tokens"):
        kept = encode_demonstrations(conversations, renderer=module.renderer(), max_tokens=limit)

    assert len(kept) == sum(length <= limit for length in lengths)
    with pytest.raises(DataError, match="at most 3 tokens, but got none among 10"):
        encode_demonstrations(conversations, renderer=module.renderer(), max_tokens=3)


def test_held_out_demonstrations_and_tasks_come_side_by_side(module, tmp_path):
    data = DemonstrationDataModule(
        validation=Dialogues(3), validation_tasks=task_set(2), environment=EchoEnvironment, eval_batch_size=2
    )
    rows, tasks = _ready(data, module, tmp_path, stage="validate").val_dataloader()

    assert [len(batch.input_ids) for batch in rows] == [2, 1]
    assert [len(batch) for batch in tasks] == [2]


def test_what_is_missing_is_named(module, tmp_path):
    data = _ready(DemonstrationDataModule(environment=EchoEnvironment), module, tmp_path)
    data.setup("test")

    with pytest.raises(ConfigError, match=r"`data\.train` to give demonstrations"):
        data.train_dataloader()
    with pytest.raises(ConfigError, match=r"`data\.test` to hold at least one task"):
        data.test_dataloader()
    assert data.val_dataloader() == []
    with pytest.raises(ConfigError, match=r"`data\.pool` to be at least 1"):
        DemonstrationDataModule(pool=0)


def test_a_module_without_a_renderer_is_named(tmp_path):
    with pytest.raises(
        ConfigError, match="Expected a module with a renderer for demonstrations, but got LightningModule"
    ):
        _ready(demonstration_data(), LightningModule(), tmp_path)
