"""What every command looks like on a terminal, drawn by running it: `python -m tools.screens` writes `docs/screens`."""
