"""What a fit is made of: the profile of the logits, the hardness indicators, the objectives, and Adam."""
