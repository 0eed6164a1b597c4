import json
import time

import pytest
from tests.fixtures.episodes import call
from tests.fixtures.worlds import world

from streakline.environment.guards import MAX_FILES
from streakline.environment.live import LiveEnvironment


def run(*calls):
    environment = LiveEnvironment(world(), timeout_s=None)
    return environment, [environment.execute(each) for each in calls]


def doubling(levels):
    """Calls that put the same directory twice into a new one, again and again."""
    yield call("mkdir", dir_name="a0")
    for level in range(levels):
        old, new = f"a{level}", f"a{level + 1}"
        yield call("mkdir", dir_name=new)
        yield call("cp", source=old, destination=new)
        yield call("mv", source=old, destination=f"b{level}")
        yield call("mv", source=f"b{level}", destination=new)


def size(tree):
    return 1 + sum(map(size, tree.get("contents", {}).values()))


def test_copies_of_copies_stop_growing():
    started = time.process_time()
    environment, results = run(*doubling(30))
    root = environment.state()["GorillaFileSystem"]["root"]
    assert MAX_FILES / 4 < size(root) <= MAX_FILES + 60
    refused = [result for result in results if result.is_error]
    assert refused
    assert f"at most {MAX_FILES} files" in json.loads(refused[0].content)["error"]
    assert time.process_time() - started < 2


def test_a_directory_that_holds_itself_is_not_copied_further():
    folder = call("mkdir", dir_name="x")
    environment, results = run(folder, *[call("cp", source="x", destination="x")] * 3)
    assert [result.is_error for result in results] == [False, False, True, True]
    assert "cycle" in json.dumps(environment.state())


@pytest.mark.parametrize(
    "calls",
    [
        [call("cp", source="archive", destination="copy"), call("cp", source="archive", destination="copy")],
        [call("mv", source="archive", destination="old"), call("cp", source="notes.txt", destination="old")],
        [call("cp", source="notes.txt", destination="archive")],
    ],
)
def test_ordinary_copies_and_moves_run(calls):
    assert not any(result.is_error for result in run(*calls)[1])


@pytest.mark.parametrize("name", ["cp", "mv"])
def test_what_is_not_there_is_answered_by_the_tool(name):
    _, [result] = run(call(name, source="nothing", destination="archive"))
    assert "No such file" in result.content
