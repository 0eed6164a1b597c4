"""How good an episode was: one signal a file, and their combination."""
