import time

import pytest

from streakline.modules.ledger import TimeLedger


def test_seconds_add_up_under_their_names():
    ledger = TimeLedger()
    for _ in range(2):
        with ledger.measure("outer"), ledger.measure("inner"):
            time.sleep(0.01)

    assert ledger["outer"] >= ledger["inner"] >= 0.02
    assert ledger["unknown"] == 0.0


def test_time_counts_when_the_block_raises():
    ledger = TimeLedger()
    with pytest.raises(RuntimeError), ledger.measure("x"):
        raise RuntimeError

    assert ledger["x"] > 0


def test_seconds_that_were_measured_elsewhere_add_up_too():
    ledger = TimeLedger()
    ledger.add("tool", 1.5)
    ledger.add("tool", 0.5)

    assert ledger["tool"] == 2.0
