"""The pages of the dashboard, one thin file each."""
