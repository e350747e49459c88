"""Compiles the record decoder if Cython and a C compiler are there; without them its plain Python is installed alone.

The modules named here are ordinary Python with a `.pxd` beside them. All of them are compiled or none: a compiled module
takes its neighbours' C types for granted. Everything else about the package is said in pyproject.toml.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = ("record", "record_columns", "records")

DIRECTIVES = {
    "language_level": 3,
    # Types come from the .pxd files; annotations speak to mypy, and mean more to Cython than they say.
    "annotation_typing": False,
    # The sources check every position before they read there.
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    # Records come and go by the thousand and can't be part of a cycle. Cython drops these two where they are written
    # on a class in a .pxd, hence here for whole modules.


}


class BuildIfPossible(build_ext):
    """Builds all extensions, or warns and goes on without any."""

    def build_extensions(self) -> None:
        try:
            from Cython.Build import cythonize

            for extension in self.extensions:
                (in_c,) = cythonize([extension], build_dir=self.build_temp, compiler_directives=DIRECTIVES)
                extension.sources = in_c.sources
            super().build_extensions()
        # Whatever is wrong with this machine's compiler, it has many ways of saying so; none may stop the installation.
        except Exception as failure:
            print(f"kshare: records stay uncompiled, about ten times slower: {failure}", file=sys.stderr)
            self._remove_what_was_built()
            self.extensions = []

    def _remove_what_was_built(self) -> None:
        for extension in self.extensions:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)


setup(
    ext_modules=[
        Extension(f"kshare.protocol.{name}", [f"kshare/protocol/{name}.py"]) for name in COMPILED
    ],
    cmdclass={"build_ext": BuildIfPossible},
)
