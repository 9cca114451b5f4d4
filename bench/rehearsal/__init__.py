"""Rehearsals: GenCode against an endpoint that replies by hand, by a story or by a real model."""
