"""Doubles for what cannot break on demand: clocks, disks and CSI drivers; and a real nats-server on a free port."""
