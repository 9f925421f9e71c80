"""Sphinx reads the pages that tools/site/build.py has copied to build/docs-source."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

project = "Pleiad"
author = "The Pleiad developers"
copyright = author
release = re.search(r"^project\(pleiad VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
version = release

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

exclude_patterns = ["files"]  # sources that pages link to

highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
# Blocks of commands are indented and have no prompt; examples in docstrings have one.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"Pleiad {release}"
html_static_path = ["_static"]
html_css_files = ["pleiad.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f4f8f", "color-brand-content": "#2f5fb0"},
    "dark_css_variables": {"color-brand-primary": "#9db8f2", "color-brand-content": "#8fb2ff"},
}


def setup(app):
    # Sphinx has no domain for Lua. This directive makes entries of the index and of the search.
    app.add_object_type("lua", "lua", "single: %s (Lua function)")
