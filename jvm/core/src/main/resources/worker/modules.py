"""Makes texts importable as the modules of a package, without files."""

import importlib.util
import sys
from importlib.abc import InspectLoader, MetaPathFinder
from pathlib import Path


class Texts(MetaPathFinder, InspectLoader):
    """Finds and loads the modules of a package.

    Args:
        package: name of the package.
        texts: source text of each module.
    """

    def __init__(self, package, texts):
        self._package = package
        self._texts = {package: ""}
        self._texts.update((f"{package}.{name}", text) for name, text in texts.items())

    def find_spec(self, fullname, path=None, target=None):
        """Returns the spec of a module of the package."""
        if fullname not in self._texts:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def is_package(self, fullname):
        """Whether a module is the package."""
        return fullname == self._package

    def get_source(self, fullname):
        """Returns the text of a module, also for tracebacks."""
        return self._texts[fullname]

    def get_code(self, fullname):
        """Compiles a module."""
        import pyspark

        # PySpark leaves its own files out of the traceback of a user's error.
        directory = Path(pyspark.__file__).parent / "cleancut" / "worker"
        name = fullname.removeprefix(f"{self._package}.")
        return compile(self._texts[fullname], str(directory / f"{name}.py"), "exec")


def install(package, texts):
    """Makes the modules importable in this process."""
    sys.meta_path.append(Texts(package, texts))
