import pytest
from tests.fixtures.tokenizers import chat_template
from tests.rendering.renderers import template_renderer
from tests.rendering.talk import REQUEST

from streakline.errors import ConfigError

# As some families do: the tools stand before the last user message, wherever that is.
MOVES_TOOLS = """
{%- for message in messages %}
    {%- set later = messages[loop.index:] | selectattr('role', 'equalto', 'user') | list %}
    {%- if message.role == 'user' and tools and not later %}
        {{- '[TOOLS]' + tools | tojson + '[/TOOLS]' }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\n' if add_generation_prompt else '' }}
"""


@pytest.mark.parametrize("thinking", ["keep", "strip", "split"])
def test_a_template_that_moves_the_tools_is_refused(thinking):
    with pytest.raises(ConfigError, match="under which a conversation only grows, but later messages change") as caught:
        template_renderer(source=MOVES_TOOLS, thinking=thinking)
    assert "TOOLS" in str(caught.value)


def test_in_context_form_any_template_will_do():
    assert template_renderer(source=MOVES_TOOLS, template="context").prompt([REQUEST], tools=[])


def test_a_template_that_forgets_earlier_results_is_refused():
    source = chat_template("qwen3").replace(
        "'\\n<tool_response>\\n' + message.content",
        "'\\n<tool_response>\\n' + (message.content if loop.index0 > ns.last_request else '...')",
    )
    with pytest.raises(ConfigError, match="only grows"):
        template_renderer(source=source)


def test_dropping_earlier_thinking_is_no_obstacle():
    assert template_renderer(source=chat_template("qwen3")).append_only


def test_a_template_without_system_role_is_accepted_until_one_is_needed():
    refuse = "{%- if messages[0].role == 'system' %}{{ raise_exception('No system role.') }}{%- endif %}"
    source = refuse + chat_template("smollm2").replace("loop.first and", "false and")
    assert template_renderer(source=source).prompt([REQUEST], tools=[])
    with pytest.raises(ConfigError, match=r"roles \[system, user\], but got: No system role"):
        template_renderer(source=source, system_prompt="Help.").prompt([REQUEST], tools=[])


def test_a_template_without_tool_role_is_refused():
    source = (
        "{%- for m in messages if m.role == 'tool' %}{{ raise_exception('No tools.') }}{%- endfor %}"
        + chat_template("smollm2")
    )
    with pytest.raises(ConfigError, match=r"tool\], but got: No tools"):
        template_renderer(source=source)
