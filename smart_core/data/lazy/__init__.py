"""Sets whose logits stay in their files: a shard is a path and a range of rows, and workers get those, never arrays.

`readers` reads rows of one file, `rows` joins shards into an (N, K) matrix that is read by slices, and `opening` makes
a `LogitSet` of what the caller names.
"""
