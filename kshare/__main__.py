"""python -m kshare: the same as the command `kshare`."""

from __future__ import annotations

from kshare.cli import main

if __name__ == "__main__":
    main()
