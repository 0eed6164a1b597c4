"""The trained policy: loading (dtype, LoRA) and export to the Hugging Face layout."""
