"""The renderer that a policy asks for."""

from transformers import PreTrainedTokenizerFast

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.family import FamilyRenderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer


def create_renderer(tokenizer: PreTrainedTokenizerFast, policy: RenderingPolicy) -> Renderer:
    """Make the renderer of a policy: with `use_family_renderer` by the library, else by the chat template.

    Raises:
        ConfigError: If tokenizer and policy don't fit; see the two classes.
    """
    return (FamilyRenderer if policy.use_family_renderer else ChatTemplateRenderer)(tokenizer, policy)
