"""Tests of bad input, load and hostile files."""
