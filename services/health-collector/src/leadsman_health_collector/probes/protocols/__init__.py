"""How to ask a storage server, in its own protocol, whether it answers: one file per protocol."""
