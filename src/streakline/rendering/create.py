"""The renderer that a policy asks for."""

from transformers import PreTrainedTokenizerFast

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.family import FamilyRenderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer

__all__ = ["create_renderer"]


def create_renderer(tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> Renderer:
    """Make the renderer of a policy.

    Args:
        tokenizer: Tokenizer to render for.
        policy: Choices to render by; `use_family_renderer` picks the library in place of the chat template.

    Returns:
        A `FamilyRenderer` or a `ChatTemplateRenderer`.

    Raises:
        ConfigError: If tokenizer and policy don't fit; see the two classes.
    """
    if policy.use_family_renderer:
        return FamilyRenderer(tokenizer, policy)
    return ChatTemplateRenderer(tokenizer, policy)
