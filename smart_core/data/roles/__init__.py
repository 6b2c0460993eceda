"""Which array has which role: from roles given by hand, names, and shapes."""
