"""How `make docs` makes a site of the pages.

The sources are the pages of the whole repository, where they lie. They link to each other, also out of
docs/, and they are read on a code host as well. Therefore the source folder is the root of the repository.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # autodoc imports the checkout

project = "Seneca"
project_copyright = "the authors of Seneca, Apache License 2.0"
html_title = "Seneca"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/contributing/*.md",
    "bench/*.md",
    "csrc/*.md",
    "seneca/**/README.md",
]
exclude_patterns = [".*", "build", "dist", "*.egg-info", "tests", "examples"]

myst_enable_extensions = ["colon_fence"]  # directives that a code host shows as text, and tests as no code
myst_heading_anchors = 4  # links to headings work as on a code host

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what arguments are; signatures stay short
napoleon_numpy_docstring = False

highlight_language = "text"  # of blocks that name no language
html_theme = "furo"
html_extra_path = ["site"]  # the front page of the output, which leads to docs/index
html_copy_source = False
html_show_sphinx = False
