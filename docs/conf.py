"""Configuration of the documentation, built by ``make docs``."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import matplotlib

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
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
highlight_language = "text"  # reports and tables of the terminal; code names its language

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
    "filename_pattern": r"/(?!remote_|dask_|spark_)\w+\.py$",
    "within_subsection_order": "gallery_order.JourneySortKey",
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
html_title = f"veilboost {release}"
html_static_path = ["_static"]
html_css_files = ["veilboost.css"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(HERE / "_static" / "scorer.js")
owner, repository = URLS["Source"].rstrip("/").split("/")[-2:]
html_context = {
    "default_mode": "auto",
    "github_user": owner,
    "github_repo": repository,
    "github_version": "main",
    "doc_path": "docs",
}
html_show_sourcelink = False
html_copy_source = False
# Pages without others beside them: their left column would be empty.
html_sidebars = {
    name: [] for name in ("index", "getting-started", "data-protection", "security", "search", "genindex")
}
html_theme_options = {
    "logo": {"text": f"veilboost {release}"},
    "icon_links": [
        {"name": "Source", "url": URLS["Source"], "icon": "fa-solid fa-code"},
        {"name": "Report an issue", "url": URLS["Issues"], "icon": "fa-solid fa-bug"},
    ],
    "use_edit_page_button": True,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "header_links_before_dropdown": 4,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    # Pages that are made from the code have no source to edit below docs/.
    "secondary_sidebar_items": {
        # No page may match two of these.
        "*": ["page-toc", "edit-this-page"],
        "experiments/*": ["page-toc", "edit-this-page"],
        "generated/**": ["page-toc"],
        "auto_examples/**": ["page-toc"],
    },
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
