"""A widget's ES module on a bare page. A simple model replaces the server and the kernel."""

import contextlib
import json
import os
from collections.abc import Iterator
from weakref import WeakKeyDictionary, WeakSet

import pytest
from anywidget import AnyWidget
from ipywidgets import DOMWidget
from playwright.sync_api import Browser, Error, Page, sync_playwright

from tools.printing import find_chromium

# The objects that anywidget's front end passes to ``render``, without a kernel behind them.
MODEL = """
const listeners = {};
window.state = STATE;
window.saved = [];
window.model = {
  get: name => state[name],
  set: (told, value) => {
    const all = typeof told === 'string' ? {[told]: value} : told; // several, as one message brings
    const changed = Object.keys(all).filter(name => state[name] !== all[name]);
    for (const name of changed) state[name] = all[name];
    for (const name of changed) (listeners[`change:${name}`] || []).forEach(heard => heard());
  },
  save_changes: () => saved.push(structuredClone(state)),
  on: (event, heard) => (listeners[event] ||= []).push(heard),
  off: (event, heard) => { listeners[event] = listeners[event].filter(h => h !== heard); },
};
window.escaped = [];
document.addEventListener('keydown', event => escaped.push(event.key));
const url = URL.createObjectURL(new Blob([MODULE], {type: 'text/javascript'}));
const main = document.querySelector('main');
main.remove(); // a notebook attaches a view after it has rendered it
window.dispose = await import(url).then(widget => widget.default.render({model, el: main}));
document.body.append(main);
"""


def chromium_or_skip() -> str:
    """Return a browser. If there is no browser, skip the test. In a complete run, fail instead."""
    if found := find_chromium():
        return found
    reason = "no Chromium found: install chromium, or name one in the environment variable CHROMIUM"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Run a headless Chromium."""
    executable = chromium_or_skip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


def state(widget: AnyWidget) -> dict:
    """Return the state that a widget sends to its page, without the traits of every widget."""
    usual = DOMWidget.class_trait_names(sync=True)
    own = [name for name in widget.trait_names(sync=True) if name not in usual]
    return {name: getattr(widget, name) for name in own if not name.startswith("_")}


@contextlib.contextmanager
def showing(
    browser: Browser, widget: AnyWidget, dark: bool = False, still: bool = True
) -> Iterator[Page]:
    """Show a widget on a page in JupyterLab's light or dark colors. No error may occur."""
    page = _page(browser)
    page.set_viewport_size({"width": 900, "height": 800})
    page.emulate_media(reduced_motion="reduce" if still else "no-preference")
    errors: list[str] = []

    def hear(error: Error) -> None:
        errors.append(str(error))

    page.on("pageerror", hear)
    ground, ink = ("#111111", "#ffffffde") if dark else ("#ffffff", "#000000de")
    page.set_content(
        f"<body data-jp-theme-light='{'false' if dark else 'true'}' style='background:{ground};"
        f"--jp-layout-color0:{ground};--jp-ui-font-color1:{ink}'><style>{widget._css}</style><main></main>"
    )
    script = MODEL.replace("STATE", json.dumps(state(widget))).replace(
        "MODULE", json.dumps(str(widget._esm))
    )
    page.evaluate(f"(async () => {{{script}}})()")
    try:
        yield page
    finally:
        page.remove_listener("pageerror", hear)
        if page in _HELD:
            page.close()
        else:
            page.goto("about:blank")  # a new document with its own globals and listeners
            _FREE.setdefault(browser, []).append(page)
    assert not errors


# A new page takes as long as a test, so pages are used again. A used page has no old state, unless
# its clock was stopped.
_FREE: WeakKeyDictionary[Browser, list[Page]] = WeakKeyDictionary()
_HELD: WeakSet[Page] = WeakSet()


def _page(browser: Browser) -> Page:
    free = _FREE.get(browser)
    return free.pop() if free else browser.new_page()


def hold_the_clock(page: Page) -> None:
    """Stop the page's clock. From then on, only ``page.clock.run_for`` advances it."""
    _HELD.add(page)
    page.clock.install(time=0)
    page.clock.pause_at(1)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors according to WCAG, from 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    channels = [float(c) / 255 for c in color.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
