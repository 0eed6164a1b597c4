"""The command that fills a cache."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streakline.cache.index import open_index
from streakline.cache.state import ToolKind
from streakline.cache.store import CacheStore
from streakline.errors import ConfigError

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "build_cache.py"


def line(number):
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {"a": number}}}]}
    return json.dumps({"messages": [asked, {"role": "tool", "content": str(number)}]}) + "\n"


def build(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_summary_tells_what_was_recorded_and_what_was_skipped(tmp_path):
    (tmp_path / "rows.jsonl").write_text(line(1) + "{\n" + line(1))
    (tmp_path / "traits.json").write_text('{"add": {"kind": "volatile"}}')
    out, traits = tmp_path / "new" / "c.db", tmp_path / "traits.json"
    done = build("--out", out, "--jsonl", tmp_path / "rows.jsonl", "--traits", traits)
    assert done.returncode == 0, done.stderr
    assert "1 entries of 1 tools" in done.stdout
    assert "2 calls, 1 new entries, 1 duplicates, 0 conflicts, 0 calls without a result, 1 skipped" in done.stdout
    assert f"skipped: Expected a JSON object in {tmp_path}/rows.jsonl, line 2" in done.stderr
    with CacheStore.open(out) as store:
        assert store.tools()["add"].traits.kind is ToolKind.VOLATILE
        assert open_index(store).num_entries == 1  # without a warning that it had to be made


def test_a_missing_file_is_one_line(tmp_path):
    done = build("--out", tmp_path / "c.db", "--jsonl", tmp_path / "rows.jsonl")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: Expected a readable file at")
    assert "Traceback" not in done.stderr


def test_a_killed_build_goes_on_where_it_stopped(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(map(line, range(20_000))))
    command = [sys.executable, SCRIPT, "--out", tmp_path / "c.db", "--jsonl", tmp_path / "rows.jsonl"]
    child = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = 0
    while not kept:
        time.sleep(0.05)
        assert child.poll() is None
        if (tmp_path / "c.db").exists():
            with CacheStore.open(tmp_path / "c.db", read_only=True) as store:
                kept = store.num_entries
    child.send_signal(signal.SIGKILL)
    child.wait()
    done = build(*command[2:])
    assert "20000 entries of 1 tools" in done.stdout
    known = int(done.stdout.rpartition("skipped, ")[2].split()[0])
    assert kept <= known < 20_000


@pytest.mark.parametrize("text", ["{", "[]", '{"ls": {}}', '{"ls": {"kind": "odd"}}', '{"ls": {"kind": "stateful"}}'])
def test_malformed_traits_are_refused(load_tool, tmp_path, text):
    (tmp_path / "traits.json").write_text(text)
    with pytest.raises(ConfigError, match="Expected `traits` to be a JSON file"):
        load_tool("build_cache").read_traits(tmp_path / "traits.json")
