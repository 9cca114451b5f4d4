"""Copies of a folder for workers on other machines: snapshots by git, and the way of the changes back."""
