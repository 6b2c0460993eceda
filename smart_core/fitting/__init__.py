"""Parts of a fit: the profile of the logits, the hardness indicators, the objectives, and Adam."""
