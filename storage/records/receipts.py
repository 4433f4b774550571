"""Receipts between rows and what is answered."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from memory.ids import UserId
from storage.protocols import Receipt, StoreReport
from storage.records.schema import receipts

_r = receipts.c
RECEIPTS: Select[Any] = select(
    _r.tenant_id,
    _r.id,
    _r.user_id,
    _r.action,
    _r.count.label("entries"),  # a row has a method of that name
    _r.requested_at,
    _r.records_at,
    _r.completed_at,
    _r.stores,
)

EMPTIED = "content, history, names and token vectors deleted; the empty row goes once the index is verified"
UNINDEXED = "deleted by id, and looked for again after a grace"


def to_receipt(row: Any) -> Receipt:
    """A receipt from a row of RECEIPTS."""
    stores = deletion_reports(row.entries, row.records_at, row.completed_at)
    if row.stores is not None:
        stores = to_reports(row.stores)
    user_id = None if row.user_id is None else UserId(row.user_id)
    return Receipt(row.id, row.action, row.entries, row.requested_at, row.completed_at, stores, user_id)


def deletion_reports(count: int, records_at: datetime, completed_at: datetime | None) -> dict[str, StoreReport]:
    """What the deletion of `count` entries has done so far."""
    return {
        "records": StoreReport(count, 0, EMPTIED, records_at),
        "index": StoreReport(count, None if completed_at is None else 0, UNINDEXED, completed_at),
    }


def to_reports(document: Mapping[str, Any]) -> dict[str, StoreReport]:
    return {
        name: StoreReport(
            report["before"],
            report["after"],
            report["method"],
            None if report["at"] is None else datetime.fromisoformat(report["at"]),
        )
        for name, report in document.items()
    }


def from_reports(stores: Mapping[str, StoreReport]) -> dict[str, Any]:
    return {
        name: {
            "before": report.before,
            "after": report.after,
            "method": report.method,
            "at": None if report.at is None else report.at.isoformat(),
        }
        for name, report in stores.items()
    }
