"""The journal: the ports of the store, the event bus, and the queue and snapshots that workers share."""
