"""What the tool promises under bad input, load and hostile files."""
