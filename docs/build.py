"""Build the documentation as a static site: the pages of this folder and the API reference from the docstrings.

    python docs/build.py [FOLDER]

Nothing is fetched, neither to build the site nor to read it. The default folder is `site`.
"""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

from pdoc import doc, render

import smart_core
from smart_core.calibrators import method_table

HERE = Path(__file__).resolve().parent
GUIDES = {
    "architecture": "where everything is, and why",
    "method": "the formulas and conventions",
    "trust": "what was checked, and against what",
}


def engine() -> dict[str, ModuleType]:
    """Return every module of the engine by name, with the names that it imports on first use."""
    names = [found.name for found in walk_packages(smart_core.__path__, "smart_core.")]
    public = [name for name in names if "._" not in name and name.split(".")[1] != "app"]
    modules = {name: import_module(name) for name in ("smart_core", *public)}
    for module in modules.values():
        for name in getattr(module, "__all__", ()):
            setattr(module, name, getattr(module, name))
    return modules


def contents(modules: dict[str, ModuleType]) -> str:
    """Return the first page in Markdown: the guides, the methods, and each module with its docstring's first line."""
    lines = [f"* [{name}]({name}.html): {what}" for name, what in GUIDES.items()]
    lines += ["* [smart_core](smart_core.html): the names of `import smart_core`", ""]
    lines += ["## Methods", "", method_table(), "", "## All modules", ""]
    for name, module in list(modules.items())[1:]:
        first = (getdoc(module) or "").partition("\n")[0]
        short = name.rpartition(".")[2]
        lines.append(f"{'    ' * (name.count('.') - 1)}* [{short}]({name.replace('.', '/')}.html): {first}")
    return "\n".join(lines)


def pages() -> dict[str, doc.Module]:
    """Return the pages of the site by name: the contents, the guides and the modules."""
    modules = engine()
    written = {"index": contents(modules)}
    for name in GUIDES:
        _, _, text = (HERE / f"{name}.md").read_text(encoding="utf-8").partition("\n")  # the title is the page's name
        written[name] = re.sub(r"\]\((\w+)\.md", r"](\1.html", text)
    return {name: doc.Module(page) for name, page in modules.items()} | {
        name: doc.Module(ModuleType(name, text)) for name, text in written.items()
    }


def html(name: str, site: dict[str, doc.Module]) -> str:
    """Return one page."""
    render.configure(docformat="numpy", show_source=False, footer_text=f"smart_core {smart_core.__version__}")
    return render.html_module(site[name], site)


def build(folder: Path) -> None:
    """Write the site."""
    warnings.simplefilter("ignore", UserWarning)  # annotations that are imported for type checkers only
    site = pages()
    files = {f"{name.replace('.', '/')}.html": html(name, site) for name in site}
    files["search.js"] = render.search_index(site)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(site)} pages: {folder / 'index.html'}")


if __name__ == "__main__":
    build(Path(*sys.argv[1:2] or ["site"]))
