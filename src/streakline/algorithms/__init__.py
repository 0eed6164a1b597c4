"""Pure maths over tensors: advantages, losses and log-probabilities. Imports torch and the records only."""
