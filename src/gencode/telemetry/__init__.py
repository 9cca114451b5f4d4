"""Telemetry: OpenTelemetry traces and metrics for an operator's own tools. Off unless switched on."""
