"""The switch that rewords every sentence of GenCode: with this folder on PYTHONPATH, Python loads this first.

    REWORDED=1 scripts/test tests/stories

From then on modules of `gencode` are loaded with their sentences made pseudo-text (`pseudo_text`), and
modules of `tests` compare sentences by their form (`forms`), in this process and in every one that it starts.
A test that passes so shows that nothing in its way is decided by comparing, searching or parsing a sentence.
"""

import ast
import builtins
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import forms
import pseudo_text

COMPILED = Path(__file__).parent / "__pycache__" / "gencode"


class Loader(SourceFileLoader):
    """Loads a module changed; what is compiled is kept apart from what others compile."""

    def get_code(self, fullname: str) -> Any:
        before, sys.pycache_prefix = sys.pycache_prefix, str(COMPILED)
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix = before

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        tree = ast.parse(data)
        if self.name.startswith("gencode"):
            tree = pseudo_text.changed(tree, str(path))
        else:
            tree = forms.changed(tree)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


class Finder(MetaPathFinder):
    """Finds the modules of GenCode and of its tests before others do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in ("gencode", "tests"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


for called in (pseudo_text.reworded, forms.compared, forms.searched, forms.matched):
    setattr(builtins, f"__{called.__name__}__", called)
sys.meta_path.insert(0, Finder())
