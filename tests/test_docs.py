"""What the documents compute is what the code computes."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = [path for path in sorted((ROOT / "docs").glob("*.md")) if ">>>" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_in_documents_give_what_is_printed(path):
    failed, attempted = doctest.testfile(str(path), module_relative=False)
    assert attempted > 0
    assert failed == 0


def test_a_document_has_examples():
    assert "efficiency.md" in {path.name for path in EXAMPLES}
