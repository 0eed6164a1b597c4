"""Metrics that add up over micro-batches, batches and ranks."""
