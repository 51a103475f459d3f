"""Report a complete partition to a web service: `partition.mark-done-action` http-report.

    POST partition.mark-done-action.http.url
    {"params": …, "table": "shop.orders", "path": "/lake/shop.db/orders", "partition": "dt=2024-03-31"}
    the answer, anything else is a failure: {"result": "SUCCESS"}

The URL and the parameters may hold tokens: messages have no more of the URL than host and path, and nothing of the
parameters. Redirections are not followed. A URL that only the table names is not used (`model.table_paths`).

Source: `HttpReportMarkDoneAction`.
"""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakekit.errors import InvalidOption, StorageFailed
from lakekit.model.table_paths import REPORT_URL as _URL

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from lakekit.metadata.table_context import TableContext

_TIMEOUT_S = 60.0
_MAX_RESPONSE_BYTES = 1 << 20
"""More of an answer is not read."""


def check(ctx: TableContext) -> None:
    """Check the URL to report to.

    Raises: `InvalidOption` if there is none, `LocationNotAllowed` if neither the caller nor the catalog allows
    it.
    """
    _report_url(ctx)


def mark(ctx: TableContext, partition_name: str) -> None:
    """Report one partition, such as `dt=2024-03-31`.

    Raises: `StorageFailed` if the service cannot be reached or does not answer SUCCESS.
    """
    where = _report_url(ctx)
    report = {
        "params": ctx.options.partition_mark_done_action_http_params,
        "table": ctx.name,
        "path": ctx.root,
        "partition": partition_name,
    }
    shown = f"{where.scheme}://{where.netloc}{where.path}"
    outcome = f"{shown} was told that {partition_name} of {ctx.name} is complete"
    remedy = "The rows are committed; t.mark_partition_done() tells it again"
    try:
        status, answer = _post_report(where, json.dumps(report).encode())
    except (OSError, ValueError) as wrong:
        msg = (
            f"{shown} could not be told that {partition_name} of {ctx.name} is complete: {type(wrong).__name__}. "
            f"{remedy}"
        )
        raise StorageFailed(msg, path=shown) from None
    if status != 200:
        raise StorageFailed(f"{outcome}, and answered {status}. {remedy}", path=shown)
    try:
        reply = json.loads(answer)
    except ValueError:
        raise StorageFailed(f"{outcome}, and its answer is no JSON. {remedy}", path=shown) from None
    result = reply.get("result") if isinstance(reply, dict) else None
    if not isinstance(result, str) or result.upper() != "SUCCESS":
        raise StorageFailed(
            f"{outcome}, and answered with the result {str(result)[:100]!r} where 'SUCCESS' is wanted. {remedy}",
            path=shown,
        )


def _report_url(ctx: TableContext) -> SplitResult:
    url = (ctx.options.partition_mark_done_action_http_url or "").strip()
    setting = f"partition.mark-done-action of {ctx.name} is http-report"
    if not url:
        raise InvalidOption(f"{setting}: say in {_URL} where to", key=_URL)
    try:
        address = urlsplit(url)
        is_web = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_web = False
    if not is_web:
        raise InvalidOption(f"{setting}, and {_URL} is no http:// or https:// address", key=_URL)
    if address.username is not None:
        raise InvalidOption(
            f"{setting}, and {_URL} names a user, which is not sent: say it in the address after ?, or in "
            f"{_URL[:-3]}params",
            key=_URL,
        )
    ctx.check_location(url, _URL)
    return address


def _post_report(url: SplitResult, request_body: bytes) -> tuple[int, bytes]:
    connection = (HTTPSConnection if url.scheme == "https" else HTTPConnection)(
        str(url.hostname), url.port, timeout=_TIMEOUT_S
    )
    with closing(connection):
        try:
            target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
            connection.request("POST", target, request_body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_RESPONSE_BYTES)
        except HTTPException as wrong:
            raise OSError(type(wrong).__name__) from None
