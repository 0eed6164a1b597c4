"""Rollouts: engines that sample tokens behind one interface, and the loop that turns them into episodes."""
