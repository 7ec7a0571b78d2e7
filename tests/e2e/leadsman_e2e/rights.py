"""The rights that we ship, for the gateway and the collectors."""

from __future__ import annotations

from pathlib import Path

import yaml

from leadsman_e2e import objects
from leadsman_e2e.api import Api

NAMESPACE = "leadsman-system"
GATEWAY = "leadsman-gateway"
COLLECTOR = "leadsman-health-collector"
DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def apply_rights(api: Api) -> None:
    """Create the namespace, the service accounts and what they may do; harmless when that is there already."""
    api.apply(objects.namespace(NAMESPACE))
    for path in (DEPLOY / "rbac.yaml", *sorted((DEPLOY / "health-collector").glob("*.yaml"))):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document:
                api.apply(document)
