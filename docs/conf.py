"""Configuration of the documentation; build it with ``make docs``."""

import os
import sys
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import orthoplus as op

HERE = Path(__file__).parent
sys.path.insert(0, os.fspath(HERE))

from gallery_setup import ORDER, WAITING  # noqa: E402

project = "orthoplus"
author = "The orthoplus developers"
copyright = author
version = release = op.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # formulas need no network
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
]
exclude_patterns = ["_build", "figures/*.py", "results/*", "README.md"]
templates_path = ["_templates"]
default_role = "py:obj"
smartquotes_action = "qe"  # two hyphens of an option stay two

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

# Types are in the docstrings, in words; signatures stay short.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_param = False
napoleon_use_rtype = False
add_module_names = False
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"

_left_out = [name for name, needed in WAITING.items() if not hasattr(op, needed)]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(__init__|conftest|" + "|".join([*_left_out, r"_$"]) + r")\.py",
    "within_subsection_order": ExplicitOrder(ORDER),
    "doc_module": ("orthoplus",),
    "reference_url": {"orthoplus": None},
    "backreferences_dir": "generated/backreferences",
    "inspect_global_variables": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "gallery_setup.set_style"),
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "plot_gallery": True,
    "min_reported_time": 0,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "thumbnail_size": (400, 280),
    "nested_sections": False,
    "default_thumb_file": os.fspath(HERE / "_static" / "digits.png"),
    "copyfile_regex": r"",
}
# ExplicitOrder cannot be cached between builds.
suppress_warnings = ["config.cache"]

html_theme = "pydata_sphinx_theme"
html_title = "orthoplus"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
# Pages without a section of their own have no side bar on the left.
ALONE = "index choose-a-model how-to-choose api paper comparison results changelog search genindex"
html_sidebars = {page: [] for page in ALONE.split()}
html_theme_options = {
    "logo": {"text": "orthoplus"},
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
