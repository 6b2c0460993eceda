"""Raw arrays to one form: scores to logits, labels to class indices, and the arrays that go with them."""
