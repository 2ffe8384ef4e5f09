"""Records find their shards, and pieces of what was put together lose nothing."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from feed_assets.delivery.client.answers import Callback
from feed_assets.delivery.client.chunks import Chunk, Lane, Routing
from feed_assets.delivery.client.limiter import ShardRates
from feed_assets.delivery.streams.port import HASH_KEYS, Limits, Record, Shard, hash_key

RECEIPT = Callback(lambda _: None)
RECORDS = st.lists(st.builds(Record, st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.binary()))
LOWS = st.sets(st.integers(1, HASH_KEYS - 1), max_size=20)


def routing(lows: set[int]) -> Routing:
    bounds = [0, *sorted(lows), HASH_KEYS]
    rates = ShardRates(Limits(), share=1.0, fraction=0.99, burst=0.04)
    lanes = [Lane(Shard(f"{low}", low, high - 1), rates.new(0.0)) for low, high in pairwise(bounds)]
    return Routing(reversed(lanes), Limits())


@given(RECORDS, LOWS)
def test_each_record_goes_once_to_the_shard_of_its_hash_key(records, lows):
    chunks = routing(lows).chunks(records, range(len(records)), RECEIPT)
    found = {}
    for chunk in chunks:
        assert chunk.size == sum(chunk.sizes)
        assert len({id(each.lane) for each in chunks}) == len(chunks)
        for record, ordinal, size in zip(chunk.records, chunk.ordinals, chunk.sizes, strict=True):
            assert chunk.lane.shard.low <= hash_key(record.key) <= chunk.lane.shard.high
            assert size == record.size
            assert found.setdefault(ordinal, record) is record
    assert [found[ordinal] for ordinal in range(len(records))] == records


@given(RECORDS, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40))))
def test_pieces_are_in_order_within_their_bounds_and_complete(records, bounds):
    chunks = routing(set()).chunks(records, range(len(records)), RECEIPT)
    pieces: list[Chunk] = []
    for chunk in chunks:
        for most, size in bounds:
            piece = chunk.split(most, size)
            if piece is not None:
                assert len(piece) <= most
                assert piece.size <= size
                pieces.append(piece)
            if piece is chunk:
                break
        else:
            pieces.append(chunk.whole())
    assert [ordinal for piece in pieces for ordinal in piece.ordinals] == list(range(len(records)))
    assert [record for piece in pieces for record in piece.records] == records
    assert sum(piece.size for piece in pieces) == sum(record.size for record in records)
