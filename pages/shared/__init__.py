"""What the pages share: the session and its results, and the parts that pages are built from."""
