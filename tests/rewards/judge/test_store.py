"""Verdicts and spendings on disk."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from streakline.errors import DataError
from streakline.rewards.judge.store import Budget, JudgeStore

KEY = b"k" * 32


def test_a_verdict_comes_back(tmp_path):
    with JudgeStore(tmp_path / "deep" / "judge.sqlite") as store:
        assert store.put(KEY, score=4, reason="g\u00f6\u00f6d \ud800") == (4, "g\u00f6\u00f6d ?")
    with JudgeStore(tmp_path / "deep" / "judge.sqlite") as store:
        assert store.get(KEY) == (4, "g\u00f6\u00f6d ?")
        assert store.get(b"other") is None
        # The first one counts, also for who comes with another.
        assert store.put(KEY, score=1, reason="") == store.get(KEY) == (4, "g\u00f6\u00f6d ?")


@pytest.mark.parametrize("change", ["score = 5", "reason = 'x'", "checksum = x'00'"])
def test_a_damaged_row_counts_as_none(tmp_path, change):
    path = tmp_path / "judge.sqlite"
    with JudgeStore(path) as store:
        store.put(KEY, score=4, reason="good")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE verdicts SET {change}")  # noqa: S608
    connection.commit()
    connection.close()

    with JudgeStore(path) as store:
        assert store.get(KEY) is None
        assert store.put(KEY, score=1, reason="") == store.get(KEY) == (1, "")


def test_a_file_of_another_kind_is_one_clear_line(tmp_path):
    path = tmp_path / "judge.sqlite"
    path.write_text("no database " * 1000)

    with pytest.raises(DataError, match=r"Expected to use `.*` as the store of a judge, but got: .*move it away"):
        JudgeStore(path)


def test_a_budget_holds_to_the_call_and_is_kept(tmp_path):
    path = tmp_path / "judge.sqlite"
    with JudgeStore(path) as store:
        assert [store.pay_call("j", budget=Budget(max_calls=2)) for _ in range(3)] == [True, True, False]
        store.pay_tokens("j", 100)
    with JudgeStore(path) as store:
        assert store.spent("j") == (2, 100)
        assert store.spent("other") == (0, 0)
        assert not store.pay_call("j", budget=Budget(max_tokens=100))
        assert store.pay_call("j", budget=Budget(max_tokens=101))
        assert store.pay_call("other", budget=Budget(max_calls=1))
        assert not store.pay_call("third", budget=Budget(max_calls=0))
        assert store.pay_call("third", budget=Budget(max_calls=10**30))


def test_many_open_a_new_file_at_once(tmp_path):
    start = threading.Barrier(6)

    def put(path):
        start.wait()
        with JudgeStore(path) as store:
            return store.put(KEY, score=3, reason="same")

    with ThreadPoolExecutor(6) as pool:
        for place in range(60):
            assert list(pool.map(put, [tmp_path / f"{place}.sqlite"] * 6)) == [(3, "same")] * 6


def _spend(path, budget, queue):
    with JudgeStore(path) as store:
        paid = [store.pay_call("j", budget=budget) for _ in range(50)]
        store.put(KEY, score=3, reason="same")
    queue.put(sum(paid))


def test_processes_share_a_budget(tmp_path):
    context = get_context("spawn")
    queue = context.Queue()
    path = tmp_path / "judge.sqlite"
    JudgeStore(path).__exit__(None, None, None)
    workers = [context.Process(target=_spend, args=(path, Budget(max_calls=60), queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    paid = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    queue.close()
    queue.join_thread()

    assert sum(paid) == 60
    with JudgeStore(path) as store:
        assert store.get(KEY) == (3, "same")
