import pytest
from mlflow.tracking import MlflowClient
from tests.fixtures.tiny_agents import EchoEnvironment, grpo_module, policy_folder, task_data, task_set, trainer

from streakline.cache.database import SCHEMA_VERSION
from streakline.cache.lookup import CacheOptions
from streakline.cache.state import ToolKind, ToolTraits
from streakline.cache.store import CacheStore, NewEntry, ToolRecord
from streakline.callbacks.mlflow_logger import RunLogger
from streakline.callbacks.run_identity import RunIdentity
from streakline.data.tasks import TaskDataModule
from streakline.environment.cached import CachedTools
from streakline.environment.live import LiveEnvironment
from streakline.errors import CacheError, ConfigError, DataError
from streakline.tasks.toolworld import ToolWorldTaskSet


def _data(**options):
    return TaskDataModule(**{"train": task_set(7), "environment": EchoEnvironment, "batch_size": 3} | options)


def _epoch(loader):
    return [[task.id for task in batch] for batch in loader]


def test_an_epoch_holds_whole_batches_in_an_order_of_its_own():
    data = _data()
    data.setup("fit")
    loader = data.train_dataloader()

    first, second = _epoch(loader), _epoch(loader)

    assert [len(batch) for batch in first] == [3, 3]
    assert len(loader) == 2
    assert len({task for batch in first for task in batch}) == 6
    assert first != second


def test_the_order_follows_from_the_seed():
    orders = []
    for seed in (0, 0, 1):
        data = _data(seed=seed)
        data.setup("fit")
        orders.append(_epoch(data.train_dataloader()))

    assert orders[0] == orders[1] != orders[2]


def test_without_shuffling_tasks_come_as_they_are():
    data = _data(shuffle=False)
    data.setup("fit")

    assert _epoch(data.train_dataloader())[0] == [f"test/train-{index}" for index in range(3)]


def test_the_position_goes_on_in_another_datamodule():
    data = _data(batch_size=1)
    data.setup("fit")
    whole = _epoch(data.train_dataloader())
    first, second = _data(batch_size=1), _data(batch_size=1)
    first.setup("fit")
    iterator = iter(first.train_dataloader())
    seen = [[task.id for task in next(iterator)] for _ in range(3)]

    second.load_state_dict(first.state_dict())
    second.setup("fit")

    assert seen + _epoch(second.train_dataloader()) == whole


def test_a_rebuilt_loader_begins_the_next_epoch():
    data = _data()
    data.setup("fit")
    first = _epoch(data.train_dataloader())
    second = _epoch(data.train_dataloader())

    assert len(first) == len(second)
    assert first != second


def test_held_out_sets_can_be_several_and_limited():
    data = _data(test=[task_set(5, prefix="a"), task_set(1, prefix="b")], limit=2, eval_batch_size=2)
    data.setup("test")
    data.setup("predict")

    expected = [["test/a-0", "test/a-1"], ["test/b-0"]]
    assert _epoch(data.test_dataloader()) == expected
    assert _epoch(data.predict_dataloader()) == expected


def test_predict_can_have_tasks_of_its_own():
    data = _data(test=task_set(1), predict=task_set(2, prefix="own"))
    data.setup("predict")

    assert _epoch(data.predict_dataloader()) == [["test/own-0", "test/own-1"]]


def test_a_missing_set_is_named():
    data = _data(train=None)
    data.setup("fit")
    data.setup("test")

    with pytest.raises(ConfigError, match=r"`data\.train` to hold at least one task"):
        data.train_dataloader()
    with pytest.raises(ConfigError, match=r"`data\.test` to hold at least one task"):
        data.test_dataloader()
    assert data.val_dataloader() == []


@pytest.mark.parametrize("option", ["batch_size", "eval_batch_size", "limit"])
def test_a_size_of_nothing_is_refused(option):
    with pytest.raises(ConfigError, match=rf"`data\.{option}` to be at least 1, but got 0"):
        _data(**{option: 0})


@pytest.fixture
def cached_tools(tmp_path):
    """Makes a frozen cache that differs by `result`."""

    def make(result):
        path = tmp_path / f"{result}.sqlite"
        if not path.exists():
            with CacheStore.open(path) as store:
                store.add([NewEntry(tool="ls", arguments={}, result=result, recorded_at=0.0)])
        return CachedTools(str(path), options=CacheOptions(fuzzy=False, best_effort="most_frequent"))

    return make


def test_a_cache_answers_in_training_and_the_live_world_in_held_out_tasks(cached_tools):
    tools = cached_tools("a")
    data = TaskDataModule(train=ToolWorldTaskSet(4, split="train"), tools=tools)
    assert data.training_environment is tools
    assert data.environment is LiveEnvironment
    plain = TaskDataModule(train=ToolWorldTaskSet(4, split="train"))
    assert plain.training_environment is plain.environment


def test_a_missing_cache_is_said_before_training_begins(tmp_path):
    data = TaskDataModule(train=ToolWorldTaskSet(4, split="train"), tools=CachedTools(str(tmp_path / "none.sqlite")))
    with pytest.raises(CacheError, match=r"none\.sqlite"):
        data.setup("fit")


def test_the_run_knows_which_cache_it_trained_on(tmp_path, mlflow_store):
    path = tmp_path / "cache.sqlite"
    with CacheStore.open(path) as store:
        store.add(
            [NewEntry(tool=tool, arguments={}, result=1, recorded_at=0.0) for tool in ("look_up", "ls", "now", "touch")]
        )
        store.set_tool("now", ToolRecord(traits=ToolTraits(kind=ToolKind.VOLATILE)))
        for name in ("ls", "touch"):
            traits = ToolTraits(kind=ToolKind.STATEFUL, state="files", writes=name == "touch")
            store.set_tool(name, ToolRecord(traits=traits))
        digest = store.digest()
    options = CacheOptions(fuzzy=False, best_effort="most_frequent")
    module = grpo_module(policy_folder(tmp_path / "policy"))
    logger = RunLogger(RunIdentity(experiment="exp", name="one"))
    run = trainer(tmp_path, logger=logger, max_steps=1)
    run.fit(module, datamodule=task_data(tools=CachedTools(str(path), options=options)))

    params = MlflowClient(mlflow_store).get_run(logger.run_id).data.params
    assert {name: value for name, value in params.items() if name.startswith("cache.")} == {
        "cache.mode": "frozen",
        "cache.entries": "4",
        "cache.tools.pure": "1",
        "cache.tools.stateful": "2",
        "cache.tools.volatile": "1",
        "cache.digest": digest,
        "cache.schema_version": str(SCHEMA_VERSION),
    }


def test_the_checkpoint_holds_position_and_cache_and_goes_on_with_the_same_cache_alone(cached_tools):
    data = TaskDataModule(train=ToolWorldTaskSet(4, split="train"), tools=cached_tools("a"))
    state = data.state_dict()
    data.load_state_dict(state)
    assert TaskDataModule(tools=cached_tools("a")).state_dict()["cache"] == state["cache"]
    with pytest.raises(DataError, match="cache of the checkpoint"):
        TaskDataModule(tools=cached_tools("b")).load_state_dict(state)
    # A run may go on live, and begin to use a cache.
    TaskDataModule().load_state_dict(state)
    data.load_state_dict(TaskDataModule().state_dict())
