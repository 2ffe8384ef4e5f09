"""Write sample deliveries for DAY to `sample/`: `python -m shop.sample [DAY]`. The default is the last day that is due.

It prints the commands that bring in what came on time.

Here: files as partners send them, a late file, a broken file, and feeds of other teams.
"""

import json
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

PRODUCTS = {"p1": "Teapot", "p2": "Kettle", "p3": "Cup"}
CURRENCIES = ("EUR", "USD", "GBP")
HEADER = "number,placed_at,product,currency,total"
NEXT = """\
The deliveries are in the folder sample. These commands bring in what came on time:
  feed-assets land web_orders sample/orders.csv
  feed-assets land web_refunds sample/refunds.jsonl
  feed-assets feed publish data/products/v1.0 sample/products.csv
  feed-assets feed publish data/exchange-rates/v1.0 sample/rates.csv --partition {day}-12:00
"""


def write(day: date, folder: Path) -> None:
    """Write the files of a day to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "orders.csv": [HEADER, *(_order(day, number) for number in range(48))],
        "late-orders.csv": [HEADER, *(_order(day, number) for number in range(48, 96))],
        # The partner has changed the names of the currencies: the audit rejects them.
        "broken-orders.csv": [HEADER, *(_order(day, number, currency="eur") for number in range(96, 192))],
        "refunds.jsonl": [_refund(day, number) for number in range(0, 48, 12)],
        "products.csv": ["product_id,name", *(f"{key},{name}" for key, name in PRODUCTS.items())],
        "rates.csv": ["hour,currency,euros", f"{day}T12:00:00Z,USD,0.92", f"{day}T12:00:00Z,GBP,1.17"],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")


def _order(day: date, number: int, currency: str = "") -> str:
    product, paid = list(PRODUCTS)[number % 3], currency or CURRENCIES[number % 3]
    return f"o-{day}-{number},{day} {12 + number % 2}:{number % 60:02}:00,{product},{paid},{10 + number % 3}.50"


def _refund(day: date, number: int) -> str:
    order = _order(day, number).split(",")
    names = ("id", "at", "order", "product", "currency", "total")
    return json.dumps(dict(zip(names, (f"r-{order[0]}", f"{day} 20:00:00", order[0], *order[2:]), strict=True)))


def last_due(now: datetime) -> date:
    """The last day (UTC) that sensors process: a day is due three hours (`buffer_hours`) after its end."""
    return (now - timedelta(days=1, hours=3)).date()


if __name__ == "__main__":
    chosen = date.fromisoformat(sys.argv[1]) if sys.argv[1:] else last_due(datetime.now(UTC))
    write(chosen, Path("sample"))
    sys.stdout.write(NEXT.format(day=chosen))
