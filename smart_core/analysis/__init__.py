"""Closer looks at an evaluation: margin groups, the learned temperature, hardness and correlation."""
