"""Wire formats: JSON bodies on the bus, the extender's JSON, and the gRPC hop, each to and from domain values."""
