"""One request to an OpenAI-compatible server, and what can become of it."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, final
from urllib.parse import urlsplit

from streakline.errors import ConfigError
from streakline.rewards.judge.extras import require
from streakline.rewards.judge.faults import Fault, ServerFault, status_fault
from streakline.rewards.judge.prompt import JudgeRequest
from streakline.rewards.judge.reply import Reply, read_reply
from streakline.rewards.judge.verdict import VERDICT_SCHEMA
from streakline.types import JSON

if TYPE_CHECKING:
    import openai

_FORMAT = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": VERDICT_SCHEMA}}
_OURS = ("messages", "model", "stream", "n")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A model behind an OpenAI-compatible server, and how it decodes."""

    model: str
    """Name under which the server knows the model."""
    base_url: str | None = None
    """Address up to `/v1`; None = what the `openai` client takes: the variable OPENAI_BASE_URL, or OpenAI itself."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; empty = the server wants none."""
    temperature: float | None = 0.0
    """None = not sent, for models that don't take it."""
    seed: int | None = 0
    """None = not sent."""
    max_tokens: int | None = 512
    """Limit on the reply; None = not sent."""
    structured: bool = True
    """Whether to ask for structured output. Where the server refuses it, it is no longer asked for."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the request, such as `reasoning_effort`."""
    revision: str = ""
    """Change it when another model has taken over the name: what the old one said is then asked anew."""

    def __post_init__(self) -> None:
        """Check what jsonargparse lets pass: a `null` of the command line, this deep, is the text None."""
        if not self.model:
            raise ConfigError("Expected `endpoint.model` to name a model, but got ''")
        if self.base_url is not None and not _is_address(self.base_url):
            raise ConfigError(
                "Expected `endpoint.base_url` to be an address such as http://127.0.0.1:8000/v1, "
                f"or null in a file, but got {self.base_url!r}"
            )
        for name, value, is_right, expected in (
            ("temperature", self.temperature, _is_number(self.temperature), "a number of at least 0"),
            ("seed", self.seed, type(self.seed) is int, "a whole number"),
            ("max_tokens", self.max_tokens, _is_count(self.max_tokens), "a whole number of at least 1"),
        ):
            if value is not None and not is_right:
                raise ConfigError(f"Expected `endpoint.{name}` to be {expected}, or null in a file, but got {value!r}")
        for name in self.options:
            if name in _OURS:
                raise ConfigError(f"Expected `endpoint.options` to leave {', '.join(_OURS)} alone, but got {name!r}")

    def identity(self) -> dict[str, JSON]:
        """What decides a verdict. The address does not: a model may move."""
        return {
            "model": self.model,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "options": dict(self.options),
            "revision": self.revision,
        }


@final
class Connection:
    """An open client of an endpoint, within one event loop."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float, structured: bool) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        # Whether to ask for structured output: who asks finds out whether the server knows it.
        self.structured = structured
        self._openai = require("openai")
        # Retries are counted, logged and limited by us.
        self._client: openai.AsyncOpenAI = self._openai.AsyncOpenAI(
            base_url=endpoint.base_url, api_key=_api_key(endpoint), timeout=timeout_s, max_retries=0
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ask(self, request: JudgeRequest, *, structured: bool) -> Reply:
        """Send one request, once.

        Raises:
            Fault: One of its children, or another kind of failure.
        """
        try:
            # The client's own limit is one on each pause of the server.
            async with asyncio.timeout(self._timeout_s):
                completion = await self._post(request, structured=structured)
            return read_reply(completion, request)
        except Fault:
            raise
        except TimeoutError as error:
            raise ServerFault(f"no answer within {self._timeout_s:g} s") from error
        except self._openai.APIStatusError as error:
            raise _status_fault(error) from error
        except self._openai.APIConnectionError as error:
            raise ServerFault(f"{type(error).__name__}: {error.__cause__ or error}") from error
        except json.JSONDecodeError as error:
            raise Fault(f"a reply that is no JSON: {error.doc[:80]!r}") from error
        except Exception as error:
            # Whatever a body does to the parsers, such as one that is too deep, is the server's doing.
            raise Fault(f"a reply that can't be read: {_one_line(error)}") from error

    async def _post(self, request: JudgeRequest, *, structured: bool) -> object:
        endpoint = self._endpoint
        optional = {"temperature": endpoint.temperature, "seed": endpoint.seed, "max_tokens": endpoint.max_tokens}
        body = {
            "model": endpoint.model,
            "messages": [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}],
            **{name: value for name, value in optional.items() if value is not None},
            **({"response_format": _FORMAT} if structured else {}),
            **endpoint.options,
        }
        # Not `chat.completions.create`: it walks through the request, and builds the reply whatever it is, for 3 ms.
        reply: object = await self._client.post("/chat/completions", body=body, cast_to=object)
        return reply


def _status_fault(error: openai.APIStatusError) -> Fault:
    retry_after = error.response.headers.get("retry-after")
    return status_fault(error.status_code, code=error.code, message=_one_line(error), retry_after=retry_after)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        is_known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_known and url.split() == [url]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _api_key(endpoint: Endpoint) -> str:
    if not endpoint.api_key_env:
        return "none"
    key = os.environ.get(endpoint.api_key_env)
    if not key:
        raise ConfigError(
            f"Expected the environment variable `{endpoint.api_key_env}` to hold the key of judge {endpoint.model}, "
            "but it is empty; a server without keys needs `api_key_env: ''`"
        )
    return key
