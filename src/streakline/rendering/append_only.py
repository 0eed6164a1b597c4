"""The check that a conversation only grows under a chat template."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Literal

from streakline.errors import ConfigError
from streakline.rendering.hermes import THINK_CLOSE, THINK_OPEN
from streakline.rendering.tools import tool_spec
from streakline.rendering.turn_texts import TurnTexts
from streakline.types import Message, Role, ToolCall, ToolSchema

_THINKING = re.compile(rf"{THINK_OPEN}.*?{THINK_CLOSE}\n*", re.DOTALL)
_TOOL = ToolSchema(name="probe_tool", description="Probe.")
_CALL = Message(role=Role.ASSISTANT, content="One.", tool_calls=(ToolCall(name="probe_tool", arguments={"a": 1}),))
_ANSWER = Message(role=Role.ASSISTANT, content="Two.")
_RESULTS = [Message(role=Role.TOOL, name="probe_tool", content='{"b": 2}')]
_REQUEST = Message(role=Role.USER, content="Next.")


def check_append_only(texts: TurnTexts, *, style: Literal["full", "short"]) -> None:
    """Check that the whole of a conversation is what its turns add up to.

    Thinking is left out of the comparison: whether earlier thinking stays is the rendering policy's choice, and a stock
    template that drops it can serve all three choices. All else must stay: a template that, say, moves the tools to the
    last user message makes each prompt a stranger to the turn before.

    Raises:
        ConfigError: If a later message changes what stood before it; the text says where.
    """
    head = _head(texts)
    tools = [tool_spec(_TOOL, style=style)]
    grown = "".join(
        (
            texts.conversation(head, tools=tools),
            texts.completion(_CALL),
            texts.extension(_RESULTS),
            texts.completion(_ANSWER),
            texts.extension([_REQUEST]),
        )
    )
    whole = texts.conversation([*head, _CALL, *_RESULTS, _ANSWER, _REQUEST], tools=tools)
    grown, whole = _THINKING.sub("", grown), _THINKING.sub("", whole)
    if grown == whole:
        return
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(grown, whole, strict=False)))
    start = max(same - 20, 0)
    raise ConfigError(
        "Expected a chat template under which a conversation only grows, but later messages change "
        f"{grown[start : same + 40]!r} into {whole[start : same + 40]!r}; use `template: context`, or another template"
    )


def _head(texts: TurnTexts) -> list[Message]:
    user = Message(role=Role.USER, content="First.")
    with_system = [Message(role=Role.SYSTEM, content="Help."), user]
    try:
        texts.conversation(with_system, tools=())
    except ConfigError:
        # Some families know no system role; a task that has a system prompt will say so when it is rendered.
        return [user]
    return with_system
