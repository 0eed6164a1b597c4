from pathlib import Path

from streakline.callbacks.config_snapshot import _write, config_digest

CONFIG = {
    "model": {"lr": 0.1},
    "run": {"experiment": "exp", "name": "one", "seed": 1},
    "ckpt_path": None,
}


def test_the_digest_is_of_what_is_computed_not_of_what_it_is_called():
    renamed = CONFIG | {"run": {"experiment": "exp", "name": "two", "seed": 1}, "ckpt_path": "last"}
    assert config_digest(renamed) == config_digest(dict(reversed(CONFIG.items())))


def test_the_digest_moves_with_knobs_and_seed():
    digests = {
        config_digest(CONFIG),
        config_digest(CONFIG | {"model": {"lr": 0.2}}),
        config_digest(CONFIG | {"run": {"seed": 2}}),
    }
    assert len(digests) == 3


def test_the_newest_configuration_has_the_plain_name_and_no_earlier_one_is_lost(tmp_path):
    for text in ("a", "a", "b", "c"):
        assert _write(tmp_path / "run", "config", text) == "config.yaml"
    found = {path.name: path.read_text() for path in Path(tmp_path / "run").iterdir()}
    assert found == {"config.yaml": "c", "config.1.yaml": "a", "config.2.yaml": "b"}
