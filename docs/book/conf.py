"""Configure Sphinx to build the book from the pages that `tools.book` has staged."""

# We use Sphinx with the Sphinx Book Theme, because both come from PyPI, and the site needs neither
# a server nor a network. Jupyter Book 2 downloads its theme from its own server during the build.

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(Path(__file__).parent))
SETTING = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "autograd-course"
]

project = html_title = "autograd_course"
language = "en"
extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design", "sphinx_reredirects", "mathml"]

# Redirect links from other sites that use the old names of lessons.
RENAMED = {
    "04_straight_through": "05_straight_through",
    "05_double_backward": "06_double_backward",
    "06_memory_patterns": "07_memory_patterns",
    "07_attention_challenge": "08_attention_challenge",
    "08_debugging_clinic": "04_debugging_clinic",
    "09_beyond_eager": "11_torch_func",
    "10_external_code": "14_external_code",
    "11_ship_it": "15_ship_it",
}
redirects = {
    f"{folder}/{old}": f"{new}.html"
    for folder in ("notebooks", "exercises")
    for old, new in RENAMED.items()
}

nb_execution_mode = "off"  # show the committed outputs
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 4
highlight_language = "text"

html_math_renderer = "mathml"  # mathml.py, next to this file
html_static_path = ["_static"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))

html_theme = "sphinx_book_theme"
html_extra_path = [str(ROOT / "build" / "book-source" / ".extra")]
html_css_files = ["book.css"]
html_js_files = [("live.js", {"defer": "defer"})]
html_logo = html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_copy_source = html_show_sphinx = html_show_copyright = html_use_index = False
html_theme_options = {
    "logo": {"text": project},
    "repository_url": f"https://github.com/{SETTING['repository']}",
    "repository_branch": SETTING["branch"],
    "use_repository_button": True,
    "use_download_button": False,  # the button would download the staged pages
    "launch_buttons": {"colab_url": "https://colab.research.google.com"},
    "show_toc_level": 2,
    "footer_content_items": [],
    "navbar_persistent": [],  # the sidebar already has a search field
    "back_to_top_button": False,  # it would cover the buttons of widgets
}
