"""Prometheus' own judge of rules, and Terraform. Both come from the machine; `.ci/run` insists on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.common.needed import lacking

ROOT = Path(__file__).parents[2]
RULES = ROOT / "infra" / "prometheus" / "millpond.rules.yml"
RULES_TEST = ROOT / "infra" / "prometheus" / "millpond.rules.test.yml"
_HOW_TO_GET = {
    "promtool": "needs promtool, which judges Prometheus' rules (Debian: prometheus)",
    "terraform": "needs terraform, to evaluate infra/terraform/monitoring.tf",
}


def run(command: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The tool's own words; the test fails where it is required and missing, and skips elsewhere."""
    found = shutil.which(command)
    if found is None:
        lacking(_HOW_TO_GET[command])
    # A machine may name a configuration of its own for Terraform; nothing here needs one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(
        [found, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def unreadable(expressions: Iterable[str], folder: Path) -> str:
    """What promtool has against these PromQL expressions; empty where it takes them all."""
    rules = [{"record": f"expression_{n}", "expr": expression} for n, expression in enumerate(expressions)]
    assert rules
    return judge({"groups": [{"name": "expressions", "rules": rules}]}, folder)


def judge(rule_file: Mapping[str, Any], folder: Path) -> str:
    """What promtool has against a rule file; JSON is YAML."""
    path = folder / "rules.yml"
    path.write_text(json.dumps(rule_file), encoding="utf-8")
    answer = run("promtool", "check", "rules", path.name, folder=folder)
    return "" if answer.returncode == 0 else answer.stdout + answer.stderr
