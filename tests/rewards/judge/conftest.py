"""A judge on a scripted server."""

import pytest
from tests.fixtures.judge_server import judge_at, judge_server


@pytest.fixture
def server():
    with judge_server() as running:
        yield running


@pytest.fixture
def judge(server, tmp_path):
    return judge_at(server.url, tmp_path / "judge.sqlite")
