"""HTML that is safe by construction: whatever is not made here is text."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """A piece of a page; any other string is text, and becomes one by escaping."""


Content = str | Html | None | Iterable["Content"]


def tag(name: str, *content: Content, **attributes: str | int | None) -> Html:
    """An element. Attributes that are None are left out; `class_` and `data_m` are as in Python.

    >>> tag("td", "<b>", tag("b", "&"), class_="best", data_v=None)
    '<td class="best">&lt;b&gt;<b>&amp;</b></td>'
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name == "img" else f"{join(*content)}</{name}>"
    return Html(f"<{name}{told}>{end}")


def join(*content: Content) -> Html:
    """Pieces one after another.

    >>> join("a < b", [tag("b", "c"), None])
    'a &lt; b<b>c</b>'
    """
    return Html("".join(map(_piece, content)))


def _piece(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return html.escape(content)
    return join(*content)
