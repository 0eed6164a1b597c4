"""Recorded tool results: canonical calls, the store, the index of similar calls, and the tiers they are served by."""
