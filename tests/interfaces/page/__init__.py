"""Tests of the web page of `gen serve`, in a real Chromium."""
