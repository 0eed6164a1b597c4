"""Messages to tokens and back: templates, history policies, tool-call parsing."""
