"""The HTTP scheduler extender that kube-scheduler calls."""
