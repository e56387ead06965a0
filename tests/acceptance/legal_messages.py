"""Input that looks wrong and is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.acceptance.bad_requests import (
    ABSENT,
    METADATA,
    good_body,
    good_bytes,
    tick,
)
from tests.common.push import PUBLISHED, push_body


class Legal(NamedTuple):
    """Input that looks wrong and is not."""

    name: str
    body: Any
    doc: str
    headers: Mapping[str, str] = {}
    # What the document must say, by dotted path.
    says: Mapping[str, Any] = {}


def legal(name: str, payload: Any, doc: str, topic: str | None = "market-ticks", **says: Any) -> Legal:
    body = push_body(payload, message_id=f"legal {name}", topic=topic)
    return Legal(name, body, doc, says={key.replace("__", "."): value for key, value in says.items()})


LEGAL = [
    legal("emoji symbol", tick(symbol="😀"), "market_ticks_latest/😀", symbol="😀"),
    legal("symbol with a slash", tick(symbol="A/B"), "market_ticks_latest/A%2FB", symbol="A/B"),
    legal("symbol of one dot", tick(symbol="."), "market_ticks_latest/%2E", symbol="."),
    legal("symbol of two dots", tick(symbol=".."), "market_ticks_latest/%2E%2E", symbol=".."),
    legal("symbol __X__", tick(symbol="__X__"), "market_ticks_latest/%5F%5FX_%5F", symbol="__X__"),
    legal("symbol with a percent sign", tick(symbol="%2F"), "market_ticks_latest/%252F", symbol="%2F"),
    legal("symbol with NUL", tick(symbol="A\x00B"), "market_ticks_latest/A%00B", symbol="A\x00B"),
    legal("symbol with a line separator", tick(symbol="A\u2028B"), "market_ticks_latest/A\u2028B"),
    legal("symbol with a quote and a line feed", tick(symbol='A"\nB'), 'market_ticks_latest/A"\nB'),
    legal("symbol of 1,500 bytes", tick(symbol="X" * 1_500), "market_ticks_latest/" + "X" * 1_500),
    legal("symbol a number", tick(symbol=600519), "market_ticks_latest/600519", symbol="600519"),
    legal("event id ..", tick(symbol="EV1", eventId=".."), "market_ticks/%2E%2E", eventId=".."),
    legal("event id a/b", tick(symbol="EV2", eventId="a/b"), "market_ticks/a%2Fb", eventId="a/b"),
    legal("event id a number", tick(symbol="EV3", eventId=77), "market_ticks/77", eventId="77"),
    legal("event id empty", tick(symbol="EV4", eventId=""), "market_ticks/legal event id empty"),
    legal("service with the separator", {"service": "a__b", "timestamp": PUBLISHED}, "ops_services/dev__a_%5Fb",
          None, serviceId="a__b"),
    legal("service in Chinese", {"service": "服务", "timestamp": PUBLISHED}, "ops_services/dev__服务", None),
    legal("NUL in text", tick(symbol="L1", x="a\x00b"), "market_ticks/legal NUL in text", data__x="a\x00b"),
    legal("largest integer", tick(symbol="L2", price=2**63 - 1), "market_ticks_latest/L2", price=2**63 - 1),
    legal("smallest integer", tick(symbol="L3", price=-(2**63)), "market_ticks_latest/L3", price=-(2**63)),
    legal("largest float", tick(symbol="L4", price=1e308), "market_ticks_latest/L4", price=1e308),
    legal("decimal as text", tick(symbol="L5", price="0.1000"), "market_ticks_latest/L5", price="0.1000"),
    legal("price null", tick(symbol="L6", price=None), "market_ticks_latest/L6"),
    legal("depth of 101", {"symbol": "L7", "x": json.loads("[" * 99 + "]" * 99)}, "market_ticks_latest/L7"),
    legal("nested lists", {"symbol": "L8", "x": [[1]]}, "market_ticks/legal nested lists",
          data='{"symbol":"L8","x":[[1]]}'),
    legal("reserved field name", {"symbol": "L9", "__x__": 1}, "market_ticks/legal reserved field name",
          data='{"__x__":1,"symbol":"L9"}'),
    legal("empty field name", {"symbol": "L10", "": 1}, "market_ticks/legal empty field name",
          data='{"":1,"symbol":"L10"}'),
    legal("dotted field name", {"symbol": "L11", "a.b": 1}, "market_ticks/legal dotted field name",
          data={"symbol": "L11", "a.b": 1}),
    legal("duplicate field names, the last one wins", b'{"symbol":"NO","symbol":"L12","price":1,"price":2}',
          "market_ticks_latest/L12", price=2),
    legal("the same text as UTF-8 and escaped", json.dumps(tick(symbol="L13é"), ensure_ascii=False).encode(),
          "market_ticks_latest/L13É"),
    legal("a pair of surrogates, escaped", rb'{"symbol":"L14\ud83d\ude00"}', "market_ticks_latest/L14😀"),
    legal("white space around the data", b' \n\t{"symbol":"L15"}\r\n ', "market_ticks_latest/L15"),
    legal("a payload of nearly 1 MiB", tick(symbol="L16", x="y" * 1_040_000), "market_ticks_latest/L16"),
    legal("topic as a path", tick(symbol="L17"), "market_ticks_latest/L17", "projects/p/topics/market-ticks",
          source__topic="market-ticks"),
    Legal("messageId of 256 bytes", good_body(messageId="x" * 256), "market_ticks/" + "x" * 256),
    Legal("messageId .", good_body(messageId="."), "market_ticks/%2E"),
    Legal("messageId with a slash and spaces", good_body(messageId="a / b"), "market_ticks/a %2F b"),
    Legal("message_id alone", good_body(messageId=ABSENT, message_id="snake"), "market_ticks/snake"),
    Legal("message_id equal to messageId", good_body(messageId="twin", message_id="twin"), "market_ticks/twin"),
    Legal("publish_time alone", good_body(messageId="pub", publishTime=ABSENT, publish_time=PUBLISHED),
          "market_ticks/pub"),
    Legal("publishTime with nanoseconds", good_body(messageId="ns", publishTime="2026-01-08T12:00:00.123456111Z"),
          "market_ticks/ns", says={"source.publishedAt": "2026-01-08T12:00:00.123456Z"}),
    Legal("subscription absent", {"message": good_body(messageId="nosub")["message"]}, "market_ticks/nosub"),
    Legal("deliveryAttempt null", {**good_body(messageId="att"), "deliveryAttempt": None}, "market_ticks/att"),
    Legal("fields nobody knows", {**good_body(messageId="more", more=[1]), "x": {"y": 2}}, "market_ticks/more"),
    Legal("duplicate names in the body, the last one wins",
          good_bytes(messageId="dup-2").replace(b'"messageId"', b'"messageId":"dup-1","messageId"'),
          "market_ticks/dup-2"),
    Legal("content type with a charset", good_body(messageId="ct1"), "market_ticks/ct1",
          {"content-type": "Application/JSON; charset=utf-8"}),
    Legal("content encoding identity", good_body(messageId="ct2"), "market_ticks/ct2",
          {"content-encoding": "identity"}),
    Legal("unwrapped as text/plain", json.dumps(tick(symbol="L18")).encode(), "market_ticks_latest/L18",
          {**METADATA, "content-type": "text/plain", "x-goog-pubsub-message-id": "legal unwrapped"}),
]  # fmt: skip
