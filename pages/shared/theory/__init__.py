"""The views of the theory page, one module each."""
