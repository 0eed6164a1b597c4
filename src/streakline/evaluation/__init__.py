"""Statistics over held-out scores, and the reports made of them."""
