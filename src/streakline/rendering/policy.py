"""How conversations become tokens, as one frozen record.

Paper A (arXiv 2606.00135) finds that these choices move multi-turn scores by more than most training does, so each is
declared, and their digest stands beside every run and every score.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from streakline.errors import ConfigError
from streakline.types import JSON


@dataclass(frozen=True, kw_only=True)
class RenderingPolicy:
    """Declared choices of rendering.

    Example:
        >>> RenderingPolicy().digest() == RenderingPolicy(thinking="strip").digest()
        False
    """

    template: Literal["native", "context"] = "native"
    """`native`: each message in its role; `context`: the whole dialogue as text inside one user message."""
    thinking: Literal["keep", "strip", "split"] = "keep"
    """Thinking of assistant turns that answered earlier user turns. `keep`: it stays. `strip`, `split`: it is dropped
    when the next user turn begins, which rewrites the history; `split` trains each history as a sample of its own,
    `strip` trains the last only."""
    system_prompt: str | None = None
    """Replaces the system prompt of every task; None = the task's own; empty = no system message."""
    schema_style: Literal["full", "short"] = "full"
    """`full`: each tool as its JSON Schema; `short`: each tool as the text `name(argument, argument)`."""
    tool_result_format: Literal["json", "text"] = "json"
    """`json`: results as JSON; `text`: results as lines of `key: value`."""
    tool_order: Literal["given", "sorted", "shuffled"] = "given"
    """Order of the tools in the prompt; `shuffled` depends on the task id alone, so that reruns agree."""
    use_family_renderer: bool = False
    """Whether to render by the `renderers` library's code for the model family, in place of the chat template."""
    family: str | None = None
    """Name of the family in the `renderers` library, such as `qwen3`; None = found by the tokenizer's name."""
    enable_thinking: bool | None = None
    """Given to the chat template under this name; None = left to the template."""

    def __post_init__(self) -> None:
        """Refuse choices that contradict each other."""
        if self.use_family_renderer and self.template == "context":
            raise ConfigError("Expected `template` to be 'native' with `use_family_renderer`, but got 'context'")

    @property
    def template_variables(self) -> dict[str, JSON]:
        """What a chat template is given by name."""
        return {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}

    def digest(self) -> str:
        """Identity of the choices: SHA-256 of their canonical JSON, as 64 hexadecimal digits."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()
