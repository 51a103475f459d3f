"""The levels of a bucket as a widget: choose a snapshot, a bucket and a key, click a file.

    at        [1 ───●── 10]  ◀ earlier  later ▶  ▷ play      partition [dt=…]  bucket [0]  compare with [–]
    probe key [ 4711 ]   filter [ amount > 3 ]
    boxes of `draw.levels`, each a button
    what the filter leaves out, or what was wrong with it
    the chosen file's facts, and the line of Python that repeats the choice

Reads the snapshots and the manifests of the snapshot shown, each once.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from lakekit.draw import cards, levels, shapes
from lakekit.draw.humanize import escape_controls, format_size, plural, truncate_heading
from lakekit.draw.level_layout import EMPTY_QUERY, EMPTY_STATE, LevelQuery, file_facts_line
from lakekit.errors import NotFound
from lakekit.inspection import levels as picture, timeline
from lakekit.inspection.levels import BucketLocation
from lakekit.notebook.panels import Canvas, CanvasBox, PictureWidget
from lakekit.read.table_scan import context_of
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from lakekit.draw.level_layout import BucketState, LevelFile
    from lakekit.draw.shapes import Drawing
    from lakekit.read.explain import Explain
    from lakekit.read.table_scan import TableCore

_CACHED_SNAPSHOTS = 64
"""The most snapshots whose files are cached."""
_MAX_PARTITIONS = 1000
"""The most partitions that a box offers; others are set from Python."""
_PREVIEW_ROWS = 10
_ARGUMENT_DESCRIPTIONS = {
    "at": "the number of a snapshot",
    "partition": "the path of a partition, as t.files() tells it",
    "bucket": "the number of a bucket",
}
_MONOSPACE_STYLE = (
    "font-family:ui-monospace,monospace;font-size:12px;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere"
)


class Levels(PictureWidget):
    """The files of one bucket by level and key; traits may be set, observed and linked.

    `at` is the snapshot, `selected` the name of the chosen file, `probe` a key as it is typed (`4711`, `1, abc`),
    `filter` a condition in SQL, `compare_to` a snapshot to put above (0: none). `lit` are the files of the bucket that
    a read with probe and filter opens, as the planner says. `code` gives what `frame()` gives. Bad input is told below
    the boxes and never raised. Raises what opening the table raises.
    """

    at = traitlets.Int(0)
    partition = traitlets.Unicode("")
    bucket = traitlets.Int(0)
    selected = traitlets.Unicode("")
    probe = traitlets.Unicode("")
    filter = traitlets.Unicode("")
    compare_to = traitlets.Int(0)
    lit = traitlets.Tuple(read_only=True)
    code = traitlets.Unicode("", read_only=True)

    def __init__(
        self, table: TableCore, *, at: int | None = None, partition: str | None = None, bucket: int | None = None
    ) -> None:
        for name, value, kind in (("at", at, int), ("partition", partition, str), ("bucket", bucket, int)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                msg = f"{name}= of Levels is {_ARGUMENT_DESCRIPTIONS[name]}, not {value!r}"
                raise TypeError(msg)
        self.table = table
        ctx = context_of(table)
        self._schema, self._default_name = ctx.schema, ctx.options.partition_default_name
        self._kinds: dict[int, str] = dict(frames.snapshots(ctx).select("snapshot_id", "kind").rows())
        self._files: dict[int, pl.DataFrame] = {}
        self._changes: dict[int, picture.SnapshotChanges] = {}
        self._read_points: dict[int, int | str] = {}
        self._is_updating = False
        self._states: tuple[BucketState, ...] = ()
        self._query = EMPTY_QUERY
        self._title = ""
        self._picture = levels.build_picture("", ())
        self._explain: Explain | None = None
        super().__init__()
        with self._without_handlers():
            self.at = at if at is not None else max(self._kinds, default=0)
            first = self._initial_bucket(partition, bucket)
            self.partition, self.bucket = first.partition, first.bucket
        self._build_controls()
        self.observe(self._on_trait, ["at", "partition", "bucket", "probe", "filter", "compare_to"])
        self.observe(lambda _: self._show_selection(), "selected")
        self._draw()

    # ---- what it gives -----------------------------------------------------------------------------------------------

    def frame(self) -> pl.LazyFrame:
        """Return the stored rows of the selected file; without one, those of the bucket as a scan shows them.

        Raises: `NotFound` for a file whose snapshots have all expired.
        """
        if not self.selected:
            return picture.scan_bucket(self.table, self._bucket_location, self.at)
        if reason := self._describe_expired():
            raise NotFound(
                f"{self.selected} of {self.table.name} {reason}: a tag would have kept it", name=self.selected
            )
        return picture.scan_file(self.table, self.selected, self._snapshot_with_file())

    def drawing(self) -> Drawing:
        """Return the picture of the current view."""
        return levels.to_drawing(self._picture)

    def as_html(self) -> str:
        """Return levels, files and funnel as tables."""
        return (
            levels.levels_tables_html(self._title, self._states, is_append=self._is_append, query=self._query)
            + self._funnel_html()
        )

    def as_text(self) -> str:
        """Return levels and funnel in characters."""
        funnel = "" if self._explain is None else f"\n{self._explain}"
        return levels.levels_text(self._title, self._states, is_append=self._is_append, query=self._query) + funnel

    # ---- steps -------------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        """Move to the next snapshot."""
        self.at = min((number for number in self._kinds if number > self.at), default=self.at)

    def back(self) -> None:
        """Move to the snapshot before."""
        self.at = max((number for number in self._kinds if number < self.at), default=self.at)

    def steps(self) -> tuple[int, ...]:
        """Return the snapshots from one compaction to the next.

        They go up to the newest compaction at or before `at`, else the first after it; all snapshots where there is
        none.
        """
        compactions = [number for number, kind in self._kinds.items() if kind == "COMPACT"]
        last = max(
            (number for number in compactions if number <= self.at),
            default=min(compactions, default=max(self._kinds, default=0)),
        )
        before = max((number for number in compactions if number < last), default=0)
        return tuple(number for number in sorted(self._kinds) if before <= number <= last)

    def play(self, *, interval_ms: int = 1200) -> tuple[int, ...]:
        """Step through the snapshots of a compaction (`steps`) in the notebook, and return their ids."""
        snapshot_ids = self.steps()
        if snapshot_ids:
            order = sorted(self._kinds)
            first, last = order.index(snapshot_ids[0]), order.index(snapshot_ids[-1])
            with self._without_handlers():
                self._play.playing = False
                self._play.min, self._play.max = 0, len(order) - 1
                self._play.value = self._play.min = first
                self._play.max = last
                self._play.interval = interval_ms
            self.at = snapshot_ids[0]
            self._play.playing = len(snapshot_ids) > 1
        return snapshot_ids

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _build_controls(self) -> None:
        """Build the controls, each linked with a trait."""
        auto_width = ipywidgets.Layout(width="auto")
        self._slider = ipywidgets.SelectionSlider(
            options=[("none", 0)], description="snapshot", continuous_update=False
        )
        back, forward = (ipywidgets.Button(description=label, layout=auto_width) for label in ("◀ earlier", "later ▶"))
        back.on_click(lambda _: self.back())
        forward.on_click(lambda _: self.forward())
        self._play = ipywidgets.Play(
            min=0, max=max(0, len(self._kinds) - 1), interval=1200, layout=ipywidgets.Layout(display="none")
        )
        self._play.observe(self._on_play_step, "value")
        self._run = ipywidgets.ToggleButton(
            description="▷ play", tooltip="step from snapshot to snapshot; again to stop", layout=auto_width
        )
        self._run.observe(self._on_play, "value")  # the buttons of Play have no names: it only keeps the time
        self._play.observe(lambda change: setattr(self._run, "value", change["new"]), "playing")
        self._partition = ipywidgets.Dropdown(description="partition")
        self._bucket = ipywidgets.Dropdown(description="bucket")
        self._compare_with = ipywidgets.Dropdown(description="compare to")
        self._probe = ipywidgets.Text(
            description="probe key", placeholder=", ".join(self._key_names), continuous_update=False
        )
        self._filter = ipywidgets.Text(description="filter", placeholder="a condition in SQL", continuous_update=False)
        self._first_rows = ipywidgets.Button(
            description="first rows", layout=auto_width, tooltip="the first rows of the chosen file, as they lie"
        )
        self._first_rows.on_click(lambda _: self._show_rows())
        self._canvas = Canvas()
        self._canvas.observe(self._on_click, "selected_key")
        self._message, self._detail, self._rows = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        wraps = ipywidgets.Layout(flex_flow="row wrap", align_items="center")
        places = [*([self._partition] if self._schema.partition_keys else []), self._bucket, self._compare_with]
        asks = [*([] if self._is_append else [self._probe]), self._filter, self._first_rows]
        rows = [[self._slider, back, forward, self._run, self._play], places, asks]
        self.children = (
            *(ipywidgets.HBox(row, layout=wraps) for row in rows),
            self._canvas,
            self._message,
            self._detail,
            self._rows,
        )
        self._update_controls()
        links = {
            "at": self._slider,
            "partition": self._partition,
            "bucket": self._bucket,
            "compare_to": self._compare_with,
            "probe": self._probe,
            "filter": self._filter,
        }
        for name, widget in links.items():
            widget.observe(lambda change, name=name: self._set_trait(name, change["new"]), "value")

    def _set_trait(self, name: str, value: Any) -> None:
        if not self._is_updating and value is not None:
            setattr(self, name, value)

    @contextmanager
    def _without_handlers(self) -> Iterator[None]:
        """Suppress the handlers of changes made within the block."""
        before, self._is_updating = self._is_updating, True
        try:
            yield
        finally:
            self._is_updating = before

    def _update_controls(self) -> None:
        """Set the options and values of the controls from the traits."""
        numbers = sorted({*self._kinds, self.at, *([self.compare_to] if self.compare_to else [])} - {0})
        locations = self._bucket_locations()
        partitions = list(dict.fromkeys(location.partition for location in locations))[:_MAX_PARTITIONS]
        buckets = [location.bucket for location in locations if location.partition == self.partition]
        with self._without_handlers():
            _set_options(self._slider, [(str(number), number) for number in numbers] or [("none", 0)], self.at)
            _set_options(
                self._partition,
                [(escape_controls(value), value) for value in _include_selected(partitions, self.partition)],
                self.partition,
            )
            _set_options(
                self._bucket, [(str(value), value) for value in _include_selected(buckets, self.bucket)], self.bucket
            )
            _set_options(
                self._compare_with,
                [("nothing", 0), *((f"snapshot {number}", number) for number in numbers)],
                self.compare_to,
            )
            self._probe.value, self._filter.value = self.probe, self.filter
            order = sorted(self._kinds)
            if self.at in self._kinds and self._play.min <= (at := order.index(self.at)) <= self._play.max:
                self._play.value = at

    @property
    def _is_append(self) -> bool:
        return not self._schema.primary_keys

    @property
    def _key_names(self) -> tuple[str, ...]:
        return self._schema.trimmed_primary_keys

    @property
    def _bucket_location(self) -> BucketLocation:
        return BucketLocation(partition=self.partition, bucket=self.bucket)

    def _bucket_locations(self) -> list[BucketLocation]:
        files = self._files.get(self.at)
        return [] if files is None else picture.list_buckets(files)

    def _initial_bucket(self, partition: str | None, bucket: int | None) -> BucketLocation:
        """Return the bucket to begin with: the first one that fits the partition and bucket."""
        locations: list[BucketLocation] = []
        with suppress(*timeline.QUERY_ERRORS):  # told when the picture is drawn
            locations = picture.list_buckets(self._read_files(self.at))
        fits = [
            location
            for location in locations
            if partition in (None, location.partition) and bucket in (None, location.bucket)
        ]
        return fits[0] if fits else BucketLocation(partition=partition or "", bucket=bucket or 0)

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _on_trait(self, change: dict[str, Any]) -> None:
        if self._is_updating:
            return
        if change["name"] == "partition":
            buckets = [location.bucket for location in self._bucket_locations() if location.partition == self.partition]
            if buckets and self.bucket not in buckets:
                with self._without_handlers():
                    self.bucket = buckets[0]
        self._draw()

    def _on_play(self, change: dict[str, Any]) -> None:
        """Start playing, from the first snapshot where the last is shown; or stop."""
        if change["new"] and self._play.value >= self._play.max:
            self._play.value = self._play.min
        self._play.playing = change["new"]

    def _on_play_step(self, change: dict[str, Any]) -> None:
        order = sorted(self._kinds)
        if not self._is_updating and 0 <= change["new"] < len(order):
            self.at = order[change["new"]]

    def _to_at_argument(self, snapshot_id: int) -> int | str:
        """Return the argument `at=` that reads a snapshot, determined once."""
        if snapshot_id not in self._read_points:
            with suppress(*timeline.QUERY_ERRORS):  # it is the number, then, and what reads by it says what is wrong
                self._read_points[snapshot_id] = timeline.to_at_argument(self.table, snapshot_id)
        return self._read_points.get(snapshot_id, snapshot_id)

    def _read_files(self, snapshot_id: int) -> pl.DataFrame:
        """Return the files of a snapshot, read once."""
        if snapshot_id not in self._files:
            if len(self._files) >= _CACHED_SNAPSHOTS:
                self._files.clear()
                self._changes.clear()
            self._files[snapshot_id] = picture.read_live_files(self.table, snapshot_id)
        return self._files[snapshot_id]

    def _read_changes(self, snapshot_id: int) -> picture.SnapshotChanges:
        if snapshot_id not in self._changes:
            self._changes[snapshot_id] = picture.read_snapshot_changes(self.table, snapshot_id)
        return self._changes[snapshot_id]

    def _draw(self) -> None:
        """Read what the traits name and show it; errors are shown too."""
        troubles: list[Exception] = []
        self._states, self._query, self._explain = (), EMPTY_QUERY, None
        try:
            self._states = self._read_states()
        except timeline.QUERY_ERRORS as error:
            troubles.append(error)
        else:
            try:
                self._evaluate_probe_and_filter()
            except timeline.QUERY_ERRORS as error:
                troubles.append(error)
        state = self._states[-1] if self._states else EMPTY_STATE
        total = f"{plural(len(state.files), 'file')} · {format_size(sum(file.size_bytes for file in state.files))}"
        parts = [
            truncate_heading(timeline.display_name(self.table)),
            truncate_heading(self.partition),
            f"bucket {self.bucket}",
            total,
            f"snapshot {self.at}" if self.at else "no snapshot",
        ]
        self._title = " · ".join(filter(None, parts))
        self._picture = levels.build_picture(
            self._title, self._states, key_names=self._key_names, is_append=self._is_append, query=self._query
        )
        self.set_trait("lit", tuple(file.name for file in state.files if file.name in (state.opened_names or ())))
        self._update_controls()
        self._canvas.show(
            [_to_canvas_box(box) for box in self._picture.boxes],
            height=self._picture.height,
            behind=self._picture.shapes,
        )
        self._message.value = (
            "".join(f'<p role="alert">{escape(escape_controls(timeline.first_line(error)))}</p>' for error in troubles)
            + self._funnel_html()
        )
        self._show_selection()

    def _funnel_html(self) -> str:
        return "" if self._explain is None else self._explain._repr_html_()

    def _read_states(self) -> tuple[BucketState, ...]:
        """Return the bucket at the snapshot, and before it at the one to compare with."""
        if not self.compare_to or self.compare_to == self.at:
            return (self._bucket_state(self.at, self._read_changes(self.at)),)
        other, this = (self._bucket_state(number, None) for number in (self.compare_to, self.at))
        other_files, these_files = ({(file.name, file.level) for file in state.files} for state in (other, this))
        leaving, added = (
            frozenset(name for name, _ in state) for state in (other_files - these_files, these_files - other_files)
        )
        return (replace(other, leaving_names=leaving), replace(this, added_names=added))

    def _bucket_state(self, snapshot_id: int, changes: picture.SnapshotChanges | None) -> BucketState:
        return picture.bucket_state(
            snapshot_id or None,
            self._read_files(snapshot_id),
            changes,
            self._bucket_location,
            is_append=self._is_append,
        )

    def _evaluate_probe_and_filter(self) -> None:
        """Evaluate probe and filter by the planner."""
        notes = picture.bucket_notes(self.table, self._bucket_location, self._states[-1])
        self._query = LevelQuery(notes=notes)
        probe = picture.parse_probe(self.table, self.probe, self.at)
        filter_condition = timeline.parse_condition_text(self.table, self.filter)
        condition = (
            filter_condition
            if probe is None
            else probe.condition
            if filter_condition is None
            else probe.condition & filter_condition
        )
        if condition is None or not self.at:
            return
        lines, states = [], []
        for state in self._states:
            planned = picture.planned_file_names(self.table, condition, self._to_at_argument(state.snapshot_id or 0))
            lit = frozenset(file.name for file in state.files) & planned
            states.append(replace(state, opened_names=lit))
            lines.append(self._format_files_read(state, len(lit), len(planned) - len(lit)))
        self._states = tuple(states)
        self._query = LevelQuery(probe=None if probe is None else probe.key_prefix, notes=(*notes, *lines))
        self._explain = picture.explain_scan(self.table, condition, self._to_at_argument(self.at))

    def _format_files_read(self, bucket_state: BucketState, count: int, other_bucket_count: int) -> str:
        """Return a text on how many files a read opens."""
        what = " and ".join(
            filter(None, (self.probe and f"probe key {self.probe}", self.filter and f"filter {self.filter}"))
        )
        at = f" at snapshot {bucket_state.snapshot_id}" if len(self._states) > 1 else ""
        more = f", {plural(other_bucket_count, 'file')} in other buckets" if other_bucket_count else ""
        return f"{what}{at}: {count} of {plural(len(bucket_state.files), 'file')} to be read{more}"

    # ---- the chosen file ---------------------------------------------------------------------------------------------

    def _on_click(self, change: dict[str, Any]) -> None:
        if not self._is_updating:
            box = self._level_boxes().get(change["new"])
            self.selected = box.files[0].name if box is not None else ""

    def _level_boxes(self) -> dict[str, levels.LevelBox]:
        return {box.key: box for box in self._picture.boxes}

    def _snapshot_with_file(self) -> int:
        """Return the snapshot that has the selected file: for a removed file an earlier one."""
        if not self._states or any(file.name == self.selected for file in self._states[-1].files):
            return self.at
        return self.compare_to or max((number for number in self._kinds if number < self.at), default=self.at)

    def _describe_expired(self) -> str:
        """Return why no snapshot has the rows of the selected file any more, "" where one has.

        A snapshot removed the file, and those that had it have expired.
        """
        if not self._states or self._snapshot_with_file() != self.at:
            return ""
        if any(file.name == self.selected for file in self._states[-1].files):
            return ""  # it went up a level as it was
        ghost = any(file.name == self.selected for file in self._states[-1].removed_files)
        return f"was removed by snapshot {self.at}, and the snapshots that had it have expired" if ghost else ""

    def _selected_box(self) -> levels.LevelBox | None:
        """Return the box of the selected file: the clicked one, or the last box with that file."""
        clicked = self._level_boxes().get(self._canvas.selected_key)
        if clicked is not None and any(file.name == self.selected for file in clicked.files):
            return clicked
        boxes = [box for box in self._picture.boxes if any(file.name == self.selected for file in box.files)]
        return next((box for box in reversed(boxes) if box.state != "removed"), boxes[0] if boxes else None)

    def _show_selection(self) -> None:
        """Show the selected file."""
        box = self._selected_box() if self.selected else None
        with self._without_handlers():
            self._canvas.selected_key = "" if box is None else box.key
        self._first_rows.disabled = not self.selected
        self._rows.value = ""
        home = self._snapshot_with_file() if self.selected else self.at
        at = self._to_at_argument(home) if home else None
        bucket = picture.bucket_reading_code(
            self.table, self._bucket_location, at, self._schema.partition_fields, self._default_name
        )
        self.set_trait("code", picture.file_reading_code(self.table, self.selected, at) if self.selected else bucket)
        self._detail.value = (
            "<div "
            f'style="{_MONOSPACE_STYLE}">{escape(self._describe_selection(box))}'
            f"\n{escape(escape_controls(self.code))}</div>"
        )

    def _describe_selection(self, box: levels.LevelBox | None) -> str:
        if not self.selected:
            return "no file chosen"
        if box is None:
            return f"{escape_controls(self.selected)} is not in this bucket at snapshot {self.at}"
        file: LevelFile = next(file for file in box.files if file.name == self.selected)
        merged_note = "" if len(box.files) == 1 else f"  one of {plural(len(box.files), 'file')} in this box"
        return "\n".join(
            filter(None, (file_facts_line(file, is_append=self._is_append) + merged_note, self._describe_expired()))
        )

    def _show_rows(self) -> None:
        try:
            rows = self.frame().head(_PREVIEW_ROWS).collect()
        except timeline.QUERY_ERRORS as error:
            self._rows.value = f'<p role="alert">{escape(escape_controls(timeline.first_line(error)))}</p>'
        else:
            self._rows.value = cards.html_table(rows.columns, rows.rows(), title=f"first rows of {self.selected}")


def _to_canvas_box(box: levels.LevelBox) -> CanvasBox:
    return CanvasBox(
        key=box.key,
        name=box.name,
        hint=box.hint,
        left=box.left,
        width=box.width,
        top=box.top,
        height=box.height,
        color=shapes.LEVEL_COLORS[min(max(box.level, 0), len(shapes.LEVEL_COLORS) - 1)],
        state=box.state,
        round=2,
        deleted_fraction=box.deleted_fraction,
    )


def _include_selected(options: list[Any], selected: Any) -> list[Any]:
    """Return the options, with the selected value among them."""
    return options if selected in options else [*options, selected]


def _set_options(widget: Any, options: list[tuple[str, Any]], value: Any) -> None:
    """Set the value of a chooser, and its options where they changed."""
    if list(widget.options) != options:
        widget.options = options
    if value in [option for _, option in options]:
        widget.value = value
