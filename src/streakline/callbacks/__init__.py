"""What plugs into the Trainer: run folder and MLflow run, checkpoints, and what a run tells of itself."""
