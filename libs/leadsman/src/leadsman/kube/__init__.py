"""The Kubernetes API for services that need it: a few raw calls, and watches that stay current."""
