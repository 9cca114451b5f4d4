"""A real collector for the tests: it takes OTLP over HTTP on 127.0.0.1 and keeps what it was sent."""

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received(Struct, frozen=True):
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    seconds: float
    attributes: dict[str, Any]
    failed: bool
    links: int


class Collector:
    """Everything that arrived."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.services: set[str] = set()
        self.raw = b""
        self.endpoint = ""

    def by_name(self) -> dict[str, Received]:
        """The spans by their names, which a test makes different."""
        return {span.name: span for span in self.spans}

    def take(self, path: str, body: bytes) -> None:
        """Keep what was sent."""
        self.raw += body
        if path.endswith("/traces"):
            self._traces(ExportTraceServiceRequest.FromString(body))
        else:
            self._metrics(ExportMetricsServiceRequest.FromString(body))

    def _traces(self, request: Any) -> None:
        for resource in request.resource_spans:
            self.services |= {
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            }
            for span in (each for scope in resource.scope_spans for each in scope.spans):
                self.spans.append(
                    Received(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        _plain(span.attributes),
                        span.status.code == 2,
                        len(span.links),
                    )
                )

    def _metrics(self, request: Any) -> None:
        metrics = (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics)
        for metric in metrics:
            points = metric.histogram.data_points if metric.HasField("histogram") else metric.sum.data_points
            found = self.metrics.setdefault(metric.name, [])
            for point in points:
                value = point.sum if metric.HasField("histogram") else point.as_double
                found.append({"value": value, **_plain(point.attributes)})


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found


@contextmanager
def collecting() -> Generator[Collector, None, None]:
    """A collector that runs."""
    collector = Collector()

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            collector.take(self.path, gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
