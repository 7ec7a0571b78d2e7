"""What filter and scorer share: the cache of node health, encoded answers, the stream to gateways, and the process."""
