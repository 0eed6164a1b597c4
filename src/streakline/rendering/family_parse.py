"""What the `renderers` library read in a turn, as our records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streakline.rendering.hermes import CALL_OPEN, THINK_CLOSE, THINK_OPEN, ParsedAssistant, parse_assistant
from streakline.types import JSON, Message, Role

if TYPE_CHECKING:
    from renderers import ParsedToolCall
    from renderers import Renderer as LibraryRenderer


def read_family_response(
    library: LibraryRenderer,
    token_ids: Sequence[int],
    *,
    prompt_ids: Sequence[int],
    text: str,
    close_thinking: bool = False,
) -> ParsedAssistant:
    """Let the library parse a turn of its family. Never raises because of what was sampled.

    `token_ids` come without the terminator, `text` is what they decode to, and the prompt ends as the real one does.
    Calls that could not be read become errors. In thinking that never ends all are text, unless `close_thinking` takes
    the whole ones for calls.
    """
    is_open = text.count(THINK_OPEN) > text.count(THINK_CLOSE)
    try:
        response = library.parse_response(list(token_ids), prompt_ids=list(prompt_ids))
    except Exception as error:  # The parser is not ours, and a turn that it can't read is data.
        return ParsedAssistant(
            message=Message(role=Role.ASSISTANT, content=text),
            errors=(f"Malformed tool call: {type(error).__name__}.",),
            open_thinking=is_open,
        )
    parsed = [_read_call(call) for call in response.tool_calls]
    calls = tuple(call for item in parsed for call in item.message.tool_calls)
    if is_open and not (close_thinking and calls):
        # Some of the library's parsers execute a call drafted in thinking that was never closed.
        before, _, thinking = text.rpartition(THINK_OPEN)
        message = Message(role=Role.ASSISTANT, content=before.strip(), thinking=thinking.strip())
        return ParsedAssistant(message=message, open_thinking=True)
    message = Message(
        role=Role.ASSISTANT,
        content=(response.content or "").strip(),
        thinking=(response.reasoning_content or "").strip(),
        tool_calls=calls,
    )
    errors = () if is_open else tuple(error for item in parsed for error in item.errors)
    return ParsedAssistant(message=message, errors=errors, open_thinking=is_open)


def _read_call(call: ParsedToolCall) -> ParsedAssistant:
    # Written once more as a Hermes block, a call meets the same checks of name and arguments as everywhere.
    if call.status != "ok" or call.name is None:
        return ParsedAssistant(message=Message(role=Role.ASSISTANT), errors=(f"Malformed tool call: {call.status}.",))
    block: dict[str, JSON] = {"name": call.name, "arguments": call.arguments}
    return parse_assistant(f"{CALL_OPEN}{json.dumps(block)}</tool_call>")
