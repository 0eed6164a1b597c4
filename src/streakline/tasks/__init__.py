"""Sources of tasks, one a file, and the order in which they are drawn."""
