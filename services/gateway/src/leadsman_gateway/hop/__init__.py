"""The gateway's side of the gRPC hop: one stream per replica, failover between them, and answers kept by generation."""
