"""Generated code of the kubelet's plugin registration."""
