"""Shows what every command looks like on a terminal, by running it: `python -m tools.screens` writes `docs/screens`."""
