"""A real Kubernetes control plane on loopback, without kubelets, for the e2e tests.

`plane` starts etcd, kube-apiserver and kube-controller-manager; `scheduler` starts kube-scheduler
from a configuration file; `api` talks to the API server; `objects` builds what tests create.
"""
