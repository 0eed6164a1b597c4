"""The LightningModules: imitation of demonstrations, and reinforcement learning from rollouts."""
