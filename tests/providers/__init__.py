"""Tests of the rack of models; `fake_server` and `dialects` are what they share."""
