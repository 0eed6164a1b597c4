import datetime
import threading
import time

import pytest

from streakline.environment.clock import FrozenDatetime, frozen_clock, parse_clock
from streakline.errors import DataError

MOMENT = datetime.datetime(2024, 2, 29, 13, 45, 7, 123456)


def test_time_stands_still_inside_the_block_and_goes_on_outside():
    with frozen_clock(MOMENT):
        assert FrozenDatetime.now() == FrozenDatetime.today() == MOMENT
    before = datetime.datetime.now()
    assert before <= FrozenDatetime.now() <= datetime.datetime.now()


def test_blocks_nest():
    with frozen_clock(MOMENT):
        with frozen_clock(MOMENT.replace(year=2030, day=1)):
            assert FrozenDatetime.now().year == 2030
        assert FrozenDatetime.now().year == 2024


def test_each_thread_has_its_own_time():
    seen = {}
    both_inside = threading.Barrier(2)

    def look(year):
        with frozen_clock(MOMENT.replace(year=year, day=1)):
            both_inside.wait(timeout=10)
            seen[year] = FrozenDatetime.now().year

    threads = [threading.Thread(target=look, args=(year,)) for year in (2001, 2002)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {2001: 2001, 2002: 2002}


def test_what_callers_expect_of_datetime_still_holds():
    assert isinstance(MOMENT, FrozenDatetime)
    assert not isinstance("2024", FrozenDatetime)
    assert FrozenDatetime.strptime("2024-02-29", "%Y-%m-%d") == datetime.datetime(2024, 2, 29)
    assert FrozenDatetime.min < FrozenDatetime.strptime("2024", "%Y") < FrozenDatetime.max
    assert FrozenDatetime.fromisoformat("2024-02-29T00:00:00").strftime("%d") == "29"


def test_a_time_zone_can_be_asked_for():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    with frozen_clock(MOMENT):
        assert FrozenDatetime.now(zone) == MOMENT.replace(tzinfo=datetime.UTC)
        assert FrozenDatetime.now(zone).hour == 15


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"])
def test_time_stamps_do_not_depend_on_the_machines_time_zone(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert FrozenDatetime(2024, 9, 1, 10, 30).timestamp() == 1725186600
        assert FrozenDatetime.fromtimestamp(1725186600) == datetime.datetime(2024, 9, 1, 10, 30)
        aware = FrozenDatetime.fromtimestamp(1725186600, datetime.UTC)
        assert aware.timestamp() == 1725186600
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_clock_is_read_from_text():
    assert parse_clock("2024-02-29T13:45:07.123456") == MOMENT


@pytest.mark.parametrize("text", ["", "noon", "2024-02-30T00:00:00", "2024-02-28T00:00:00+02:00"])
def test_a_clock_that_is_none_is_refused(text):
    with pytest.raises(DataError, match="Expected `clock`"):
        parse_clock(text)
