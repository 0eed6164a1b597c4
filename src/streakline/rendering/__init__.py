"""Messages to tokens and back: templates, history policies, tool-call parsing."""

__all__: list[str] = []
