"""What the pages share: routing, state keys, cached calls, wording."""
