"""`python -m tools.kgen` writes all generated files; `--check` only prints what would change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.kgen import generate
from tools.kgen.model import SchemaError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kgen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args().check
    root = Path(__file__).parents[2]
    try:
        changes = generate.changes(root)
    except SchemaError as error:
        print(f"kgen: {error}", file=sys.stderr)
        return 1
    for path, text in changes.items():
        print(f"{'would ' if check else ''}{'remove' if text is None else 'write'} {path.relative_to(root)}")
        if not check:
            generate.apply(path, text)
    return 1 if check and changes else 0


if __name__ == "__main__":
    sys.exit(main())
