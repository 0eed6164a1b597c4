"""What is fed to the modules: tasks to be attempted, demonstrations to be imitated, and padded batches of tokens."""
