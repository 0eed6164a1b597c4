"""Answers that talk about the work in place of the result: thinking that leaked, how to answer, words to a grader.

Paper B gives such an answer a score of 0 and does not publish its rules; these are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LEAKS: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for name, pattern in {
        "tag of thinking": r"</?\s*(think(ing)?|thoughts?|reason(ing)?|analysis|scratchpad)\s*>|\[/?think\]"
        r"|<\|channel\|>\s*analysis|^\W*(thought|action input)\s*:",
        "tag of a call or a result": r"</?\s*tool_(call|response|result)s?\s*>",
        # Where a sentence or a clause about the work begins: "the ticket says the user needs a key" is a result.
        "the user in the third person": r"(^\W*|[.!?,]\s+|\b(since|because|as|so|now) )(the )?user('s)? "
        r"(wants?|asks?|asked|is asking|needs?|said|says|request\w*|quer\w+)\b",
        "thinking aloud": r"^\W*(okay|ok|alright|hmm+|wait|so|now|well)\b[,.: ]+\W*(so |now )?"
        r"(let me (?!know)|let's|i need to|i should|i have to|we need to|first[:,]? (i|we|let|to)\b|first:)"
        r"|^\W*(let me|let's) (now |first )?(check|look|find|search|try|call|verify|start)\b",
        "announced thought": r"\b(let me think|thinking (out loud|step by step)|my (reasoning|thought process)"
        r"|chain of thought)\b",
        "choice of a tool": r"\b(i|we) (should|need to|must|will|have to|could) (now |first |then )?(call|use|invoke) "
        r"(the |a )?[`'\"]?\w+[`'\"]? (tool|function|api)\b",
        "instructions to itself": r"\b(the|my) (system prompt|instructions?) (say|tell|forbid|require|state|want)s?\b",
        "words to a grader": r"\b(answer|response|reply) (deserves|earns|merits|should (get|receive|be given)) "
        r"(a |the )?((full|top|highest|maximum|perfect) (marks?|scores?|points|credit|grade)|[0-9.]+ ?(/|of|out of))"
        r"|\b(answer|response|reply) should be (graded|scored|rated)\b|\bbacked by the tool results\b"
        r"|\b(according to|as) the (grading |scoring )?rubric\b|\byou grade the (final )?answer\b"
        r"|\{(?=[^{}]*[\"']reason[\"'])[^{}]*[\"'](score|verdict)[\"']\s*:",
    }.items()
}
"""Rule -> what it looks for, anywhere in the final answer."""


def find_leak(answer: str) -> str:
    """Name of the first rule that an answer breaks; empty = none.

    Example:
        >>> find_leak("Okay, let me check the order first."), find_leak("Order 12 was cancelled.")
        ('thinking aloud', '')
    """
    return next((name for name, pattern in LEAKS.items() if pattern.search(answer)), "")
