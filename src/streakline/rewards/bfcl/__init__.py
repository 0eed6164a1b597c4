"""What counts as right in BFCL: its own verdict, and a grader of our own that is faster and as strict as wanted."""
