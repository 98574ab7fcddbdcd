"""How the site is built: `sphinx-build -W --keep-going -b html docs out/docs`.

Everything a page needs is in the site: no script, style, font or picture comes over the network.
Pages write mathematics as LaTeX, `$...$`, which becomes MathML when the site is built (`_ext/mathml.py`).
Tutorials are executed when they have changed; a page whose packages are missing is shown without its results
instead of being left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
)  # `rhocover`

from tutorials import NEEDS, missing, prepare_kernels

import rhocover

project = "rhocover"
author = "The rhocover developers"
copyright = "The rhocover developers, Apache-2.0"
version = release = rhocover.__version__

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "docstrings",
    "generated",
    "linked_names",
    "mathml",
    "tutorials",
]
html_math_renderer = "mathml"
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["_ext", "_static", "_build", "**/.ipynb_checkpoints"]
highlight_language = "text"  # a block without a language is an equation or a listing
default_role = "code"
smartquotes = False  # `""` is code, not a quotation

# Markdown.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["mystnb.unknown_mime_type"]

# Tutorials.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent.parent / "out" / "docs-cache")
prepare_kernels(Path(nb_execution_cache_path, "ipython"))
nb_execution_in_temp = True  # files that a page writes are not left here
nb_execution_timeout = 1800  # seconds for a cell: a machine may be busy, only a hang is ended
nb_execution_raise_on_error = True
nb_execution_excludepatterns = [page for page in NEEDS if missing(page)]
nb_merge_streams = True
nb_ipywidgets_js = {}

# Docstrings.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name for name in ("FloatArray", "IntArray", "BoolArray", "Matrix", "StepResult", "VectorResult")
}
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 120
toc_object_entries_show_parents = "hide"
add_module_names = False

# Look.
html_theme = "furo"
html_title = "rhocover"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_logo": "wordmark-light.svg",
    "dark_logo": "wordmark-dark.svg",
    "sidebar_hide_name": True,
    "light_css_variables": {"color-brand-primary": "#0a58a6", "color-brand-content": "#0a58a6"},
    "dark_css_variables": {"color-brand-primary": "#86bdff", "color-brand-content": "#86bdff"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output) > div.highlight pre"
