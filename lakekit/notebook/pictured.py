"""What every widget of ours leaves in a notebook: itself, a PNG twin and a table, so that something stays where no widget can live.

application/vnd.jupyter.widget-view+json   JupyterLab, Notebook, VS Code, Colab while a kernel runs
image/png                                  the notebook unrun, untrusted, exported, on a code host
text/html, text/plain                      screen readers and everything else; marimo gets picture and table
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import ipywidgets

from lakekit.draw.png import png

if TYPE_CHECKING:
    from lakekit.draw.shapes import Drawing

VIEW = "application/vnd.jupyter.widget-view+json"


class Pictured(ipywidgets.VBox):
    """A widget that can draw itself (`drawing`), tell itself as a table (`as_html`) and in characters (`as_text`)."""

    def drawing(self) -> Drawing:
        """The picture of what is shown now."""
        raise NotImplementedError

    def as_html(self) -> str:
        """What is shown now as a table without style blocks."""
        raise NotImplementedError

    def as_text(self) -> str:
        """What is shown now in characters."""
        raise NotImplementedError

    def picture(self) -> bytes:
        """The PNG of what is shown now."""
        return png(self.drawing())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        view = super()._repr_mimebundle_()
        found = {VIEW: view[VIEW]} if view and VIEW in view else {}
        return found | {"image/png": base64.b64encode(self.picture()).decode(), "text/html": self.as_html(), "text/plain": self.as_text()}

    def _mime_(self) -> tuple[str, str]:
        """What marimo shows, which has no place for Jupyter's widgets."""
        code = base64.b64encode(self.picture()).decode()
        return "text/html", f'<img alt="" style="max-width:100%" src="data:image/png;base64,{code}">{self.as_html()}'
