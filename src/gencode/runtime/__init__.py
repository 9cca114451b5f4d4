"""The machine: one loop, the seat it sits in, and the ports it speaks through."""
