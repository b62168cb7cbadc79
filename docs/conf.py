"""Configuration of the documentation, built by ``make docs``."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
matplotlib.use("Agg")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

project = "veilboost"
author = "the veilboost developers"
project_copyright = author
release = version = version_of("veilboost")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"  # docstrings write names in single backticks

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's tables state the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    # Examples that start servers are shown, not executed.
    "filename_pattern": r"/(?!remote_|dask_)\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # their table loads scripts from the network
    "download_all_examples": False,
    "min_reported_time": 1,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "veilboost"
html_static_path = ["_static"]
html_css_files = ["veilboost.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
