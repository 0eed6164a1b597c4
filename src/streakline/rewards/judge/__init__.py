"""Answers scored by a judge: an API, a local model, or rules."""
