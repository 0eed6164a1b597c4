from pathlib import Path

from streakline.callbacks.config_snapshot import _write


def test_the_newest_configuration_has_the_plain_name_and_no_earlier_one_is_lost(tmp_path):
    for text in ("a", "a", "b", "c"):
        assert _write(tmp_path / "run", "config", text) == "config.yaml"
    found = {path.name: path.read_text() for path in Path(tmp_path / "run").iterdir()}
    assert found == {"config.yaml": "c", "config.1.yaml": "a", "config.2.yaml": "b"}
