"""What a web service is told of a partition that is complete: `partition.mark-done-action` http-report.

    POST partition.mark-done-action.http.url
    {"params": …, "table": "shop.orders", "path": "/lake/shop.db/orders", "partition": "dt=2024-03-31"}
    the answer, anything else is a failure: {"result": "SUCCESS"}

The address and the parameters may hold tokens: messages have no more of the address than host and path, and nothing of the parameters. A redirection is
followed nowhere. An address that the table alone names is asked nothing (`model.locations`).

Source: `HttpReportMarkDoneAction`.
"""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakekit.errors import InvalidOption, StorageFailed
from lakekit.model.locations import REPORT_URL as _URL

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from lakekit.metadata.table_context import TableContext

_TIMEOUT_S = 60.0
_MOST_BYTES = 1 << 20
"""More of an answer is not read."""


def check(ctx: TableContext) -> None:
    """Raises `InvalidOption` where there is no address to report to, `LocationNotAllowed` where neither the caller nor the catalog allows it."""
    _address(ctx)


def mark(ctx: TableContext, directory: str) -> None:
    """Tells of one partition, such as `dt=2024-03-31`. Raises `StorageFailed` where the service cannot be reached or does not answer SUCCESS."""
    where = _address(ctx)
    said = {"params": ctx.options.partition_mark_done_action_http_params, "table": ctx.name, "path": ctx.root, "partition": directory}
    shown = f"{where.scheme}://{where.netloc}{where.path}"
    told = f"{shown} was told that {directory} of {ctx.name} is complete"
    again = "The rows are committed; t.mark_partition_done() tells it again"
    try:
        status, answer = _post(where, json.dumps(said).encode())
    except (OSError, ValueError) as wrong:
        msg = f"{shown} could not be told that {directory} of {ctx.name} is complete: {type(wrong).__name__}. {again}"
        raise StorageFailed(msg, path=shown) from None
    if status != 200:
        raise StorageFailed(f"{told}, and answered {status}. {again}", path=shown)
    try:
        found = json.loads(answer)
    except ValueError:
        raise StorageFailed(f"{told}, and its answer is no JSON. {again}", path=shown) from None
    result = found.get("result") if isinstance(found, dict) else None
    if not isinstance(result, str) or result.upper() != "SUCCESS":
        raise StorageFailed(f"{told}, and answered with the result {str(result)[:100]!r} where 'SUCCESS' is wanted. {again}", path=shown)


def _address(ctx: TableContext) -> SplitResult:
    given = (ctx.options.partition_mark_done_action_http_url or "").strip()
    asked = f"partition.mark-done-action of {ctx.name} is http-report"
    if not given:
        raise InvalidOption(f"{asked}: say in {_URL} where to", key=_URL)
    try:
        found = urlsplit(given)
        is_web = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_web = False
    if not is_web:
        raise InvalidOption(f"{asked}, and {_URL} is no http:// or https:// address", key=_URL)
    if found.username is not None:
        raise InvalidOption(f"{asked}, and {_URL} names a user, which is not sent: say it in the address after ?, or in {_URL[:-3]}params", key=_URL)
    ctx.check_location(given, _URL)
    return found


def _post(where: SplitResult, body: bytes) -> tuple[int, bytes]:
    connection = (HTTPSConnection if where.scheme == "https" else HTTPConnection)(str(where.hostname), where.port, timeout=_TIMEOUT_S)
    with closing(connection):
        try:
            target = f"{where.path or '/'}{f'?{where.query}' if where.query else ''}"
            connection.request("POST", target, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES)
        except HTTPException as wrong:
            raise OSError(type(wrong).__name__) from None
