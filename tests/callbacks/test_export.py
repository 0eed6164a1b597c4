import pytest
import torch
from lightning.pytorch import Trainer
from tests.fixtures.tiny_agents import policy_folder
from tests.fixtures.tiny_modules import TinyData, TinyModule

from streakline.callbacks.export import Export
from streakline.modules.sft import SFTModule
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.tokenizer import load_tokenizer


class _Trainer:
    is_global_zero = True

    def __init__(self, folder):
        self.default_root_dir = str(folder)


@pytest.fixture
def module(tmp_path):
    module = SFTModule(policy=PolicyConfig(name_or_path=policy_folder(tmp_path / "policy"), init="random"))
    module.configure_model()
    return module


def test_what_is_exported_loads_again_with_the_same_weights_and_template(module, tmp_path):
    Export().on_fit_end(_Trainer(tmp_path), module)
    exported = str(tmp_path / "export")
    again = load_policy(PolicyConfig(name_or_path=exported)).state_dict()
    assert again.keys() == module.policy.state_dict().keys()
    assert all(torch.equal(again[name], weight) for name, weight in module.policy.state_dict().items())
    assert load_tokenizer(exported).chat_template == module.renderer().tokenizer.chat_template


def test_it_can_be_switched_off_and_other_processes_do_not_write(module, tmp_path):
    Export(enabled=False).on_fit_end(_Trainer(tmp_path), module)
    other = _Trainer(tmp_path)
    other.is_global_zero = False
    Export().on_fit_end(other, module)
    assert not (tmp_path / "export").exists()


def test_a_module_without_a_policy_is_left_alone(tmp_path):
    trainer = Trainer(
        accelerator="cpu",
        max_steps=1,
        callbacks=[Export()],
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(TinyModule(), datamodule=TinyData())
    assert list(tmp_path.iterdir()) == []
