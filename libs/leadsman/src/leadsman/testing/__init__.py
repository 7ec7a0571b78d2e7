"""Doubles for what cannot break on demand, a real nats-server, and what tests and `leadsman up` need to run processes.

Doubles: `clock`, `csi_driver` (with `csi_node` and `csi_registration`), `fuse_mount`, `tcp_backend`, `reports`,
`rules`. Processes: `nats`, `process`, `sockets`, `pages`, `waiting`. Services never import this.
"""
