"""Which array is what: by roles given by hand, by names, and by shapes."""
