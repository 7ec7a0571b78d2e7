"""Who may talk to the control plane: the API server's token file, and kubeconfigs for clients."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The API server's own certificate file also holds the authority that signed it.
CLUSTER_NAME = "e2e"


def _new_token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user the API server knows by a static token."""

    user: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=_new_token, repr=False)

    @classmethod
    def service_account(cls, namespace: str, name: str) -> Identity:
        """The user and groups a service account has, so that RBAC treats it as that account."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return cls(service_account_user(namespace, name), groups)

    @property
    def file_name(self) -> str:
        """A name for files about this identity."""
        return self.user.replace(":", "_")


def service_account_user(namespace: str, name: str) -> str:
    """The user name RBAC knows a service account by."""
    return f"system:serviceaccount:{namespace}:{name}"


def write_token_file(path: Path, identities: Sequence[Identity]) -> None:
    """Write what `--token-auth-file` reads: token, user, uid and quoted groups per line."""
    rows = []
    for identity in identities:
        groups = ",".join(identity.groups)
        rows.append(f'{identity.token},{identity.user},{identity.user},"{groups}"\n')
    path.write_text("".join(rows), encoding="utf-8")
    path.chmod(0o600)


def write_kubeconfig(path: Path, *, server: str, ca: Path, identity: Identity) -> Path:
    """Write a kubeconfig (JSON is YAML) for one identity and return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CLUSTER_NAME,
        "clusters": [
            {
                "name": CLUSTER_NAME,
                "cluster": {"server": server, "certificate-authority": str(ca)},
            }
        ],
        "users": [{"name": identity.user, "user": {"token": identity.token}}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": identity.user}}],
    }
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    path.chmod(0o600)
    return path
