"""Tricks that make records cheap, one a module: C bodies, patched slots, recycling. They import nothing of ours."""
