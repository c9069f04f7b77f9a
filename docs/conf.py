"""Sphinx configuration of the Postroom documentation."""

project = "Postroom"
author = "The Postroom developers"
copyright = "The Postroom developers"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Postroom"
html_static_path = ["_static"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
