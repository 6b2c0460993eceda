"""The screens of the Guide, one per question."""
