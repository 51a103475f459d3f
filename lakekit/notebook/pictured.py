"""The output of every widget in a notebook: the widget, a PNG picture and a table.

So something stays where no widget can be shown.

    widget view   JupyterLab, Notebook, VS Code, Colab while a kernel runs
    text/html     <img data:image/png> and the table below it: unrun, untrusted, exported, on a code host; marimo
    image/png     the picture alone, for hosts that know no HTML
    text/plain    the picture in characters

JupyterLab ranks text/html (50) above image/png (90), and so does nbconvert: a table alone would hide the picture from
readers who do not run the notebook. Hence the HTML begins with the same picture. Counted in JupyterLab 4.6, untrusted,
and in nbconvert 7.17:

    in the output beside the view    picture  table
    table, image/png                 no       yes
    picture and table, image/png     yes      yes     <- this
    image/png                        yes      no

Both keep an image whose address is `data:`. Only nbconvert's `sanitize_html`, off by default, does not.
"""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets

from lakekit.draw.humanize import escape_controls
from lakekit.draw.png import png

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.draw.shapes import Drawing

VIEW = "application/vnd.jupyter.widget-view+json"


class PictureWidget(ipywidgets.VBox):
    """A widget that can tell what it shows now.

    Every view has `drawing`, the picture; `as_html`, a table without style blocks; and `as_text`, the same in
    characters. (The metaclass of widgets takes no abstract methods, so they are annotated.)
    """

    drawing: Callable[[], Drawing]
    as_html: Callable[[], str]
    as_text: Callable[[], str]

    def picture(self) -> bytes:
        """Return the PNG of the current view."""
        return png(self.drawing())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        view = super()._repr_mimebundle_()
        bundle = {VIEW: view[VIEW]} if view and VIEW in view else {}
        code, page = self._pictured()
        return bundle | {"image/png": code, "text/html": page, "text/plain": self.as_text()}

    def _mime_(self) -> tuple[str, str]:
        """Return the output for marimo, which does not show Jupyter's widgets."""
        return "text/html", self._pictured()[1]

    def _pictured(self) -> tuple[str, str]:
        """Return the PNG in base64, and the HTML that begins with it; both of one drawing."""
        drawing = self.drawing()
        code = base64.b64encode(png(drawing)).decode()
        alt = escape(escape_controls(drawing.told))
        return code, f'<img alt="{alt}" width="{drawing.width:.0f}" src="data:image/png;base64,{code}">{self.as_html()}'
