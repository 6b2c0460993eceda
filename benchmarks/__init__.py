"""Speed side by side with other ways, as ratios measured in one run: `make bench`."""
