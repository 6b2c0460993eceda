"""Closer looks at an evaluation: margin groups, the learned temperature, and hardness."""
