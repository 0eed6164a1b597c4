"""Train and measure LLM agents that call tools over several turns."""
