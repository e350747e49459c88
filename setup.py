"""Compiles what has a `.pxd` beside it if Cython and a C compiler are there; if not, plain Python is installed alone.

All modules are compiled or none: a compiled module takes its neighbours' C types for granted. With
`KSHARE_REQUIRE_COMPILED=1` in the environment, the installation fails if they can't be compiled. Everything else about
the package is said in pyproject.toml.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

REQUIRE = "KSHARE_REQUIRE_COMPILED"

INLINED = {
    "__init__",
    "await_slots",
    "bigendian",
    "byte_runs",
    "coarse_clock",
    "current_task",
    "first_step",
    "memory",
    "recycling",
    "shown_names",
    "thread_id",
    "uncollected",
}
"""Their `.pxd` files hold C bodies for compiled callers; they themselves stay Python."""

MESSAGES = "kshare.protocol.messages."
"""Generated modules. They are large: optimising them takes a minute more, and then a fetch is decoded µs sooner."""
DIRECTIVES = {"language_level": 3}
# Types come from the .pxd files; annotations speak to mypy, and mean more to Cython than they say.
# Pickling would follow pointers into memory. What must not be copied says so itself: see kshare/protocol/uncopied.py.
# An object can be made without `__init__`, and then what Python code would find missing is None.
HAND_WRITTEN = {"annotation_typing": False, "auto_pickle": False, "nonecheck": True}
RECORD_DIRECTIVES = {
    **HAND_WRITTEN,
    # The sources compare every position before they read there. Messages don't: they rely on IndexError.
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
}
NEVER_NONE = {"kshare.fast.awaiting", "kshare.protocol.record", "kshare.state.lease"}
"""Modules that check by themselves for None what may be None. Their functions are called for each record."""


def compiled_modules() -> list[Path]:
    declarations = (path for path in sorted(Path("kshare").rglob("*.pxd")) if path.stem not in INLINED)
    return [path.with_suffix(".py") for path in declarations]


def directives_for(module: str) -> dict[str, object]:
    if module.startswith(MESSAGES):
        return DIRECTIVES
    is_record_decoder = module.startswith("kshare.protocol.record")
    directives = {**DIRECTIVES, **(RECORD_DIRECTIVES if is_record_decoder else HAND_WRITTEN)}
    return {**directives, "nonecheck": module not in NEVER_NONE}


def compiler_options(module: str, compiler_type: str) -> list[str]:
    """Python's own ask for what a debugger reads, which makes modules six times as large.

    What `CFLAGS` says comes first, so that it isn't overruled.
    """
    if compiler_type != "unix" or "CFLAGS" in os.environ:
        return []
    return ["-O1", "-g0"] if module.startswith(MESSAGES) else ["-g0"]


class BuildIfPossible(build_ext):
    """Builds all extensions. If that fails, fails too where it is required; or warns and goes on without any."""

    def build_extensions(self) -> None:
        try:
            self.check_extensions_list(self.extensions)
            self._compile_while_translating()
        # A machine has many ways of saying that its compiler doesn't work. None may stop the installation by itself.
        except Exception as failure:
            if os.environ.get(REQUIRE, "0") not in ("", "0"):
                raise CompileError(f"{REQUIRE} is set, and kshare can't be compiled: {failure}") from failure
            self.warn(f"nothing is compiled, so records are read far slower: {failure}")
            self._remove_what_was_built()

    def _compile_while_translating(self) -> None:
        """Cython translates one module after another. Meanwhile, C compilers work on those that are translated."""
        from Cython.Build import cythonize

        kind = self.compiler.compiler_type
        with ThreadPoolExecutor(self.parallel or os.cpu_count()) as compilers:
            compiling: list[Future[None]] = []
            for extension in self.extensions:
                for module in compiling:
                    if module.done():
                        module.result()  # without a working compiler, translating all would take long for nothing
                directives = directives_for(extension.name)
                (in_c,) = cythonize([extension], build_dir=self.build_temp, compiler_directives=directives)
                extension.sources = in_c.sources
                extension.extra_compile_args = compiler_options(extension.name, kind)
                compiling.append(compilers.submit(self.build_extension, extension))
            for module in compiling:
                module.result()

    def _remove_what_was_built(self) -> None:
        for extension in self.extensions:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
        self.extensions: list[Extension] = []


COMMANDS: dict[str, type[Command]] = {"build_ext": BuildIfPossible}
try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools is older than pyproject.toml asks for, and enough to build in place
    pass
else:

    class TagByWhatWasBuilt(bdist_wheel):
        """A wheel in which nothing is compiled serves any Python on any machine, and is named so.

        It is built in a temporary folder: in `build`, modules of earlier versions would be left, and packed as well.
        """

        def initialize_options(self) -> None:
            super().initialize_options()
            self._folder = TemporaryDirectory(prefix="kshare-build-", ignore_cleanup_errors=True)
            self.distribution.get_command_obj("build").build_base = self._folder.name

        def run(self) -> None:
            self.run_command("build")
            if not self.get_finalized_command("build_ext").extensions:
                self.distribution.ext_modules = None
                self.root_is_pure = True
            super().run()

    COMMANDS["bdist_wheel"] = TagByWhatWasBuilt


setup(
    ext_modules=[
        Extension(".".join(module.with_suffix("").parts), [str(module)]) for module in compiled_modules()
    ],
    cmdclass=COMMANDS,
)
