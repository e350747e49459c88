"""Programs that run where only a documented install line was run: nothing of this project's tests, no checkout.

`tests/test_packaging.py` says which line each needs, installs the wheel with it, and runs the program. A program fails
if it doesn't end with exit code 0.
"""
