"""NATS: subjects, streams, a connection that lasts, publishing, and the replica that turns the bus into a cache."""
