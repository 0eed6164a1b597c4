from streakline.evaluation.config_digest import config_digest

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
