"""Terraform's files: their text, the part of their grammar that the tests need, and what their local values are."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.alerts.tools import run

ROOT = Path(__file__).parents[2]
TERRAFORM = ROOT / "infra" / "terraform"


def text_of(*paths: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths))


HCL = text_of(*TERRAFORM.glob("*.tf"))
MODULE = text_of(*TERRAFORM.glob("modules/service/*.tf"))


def evaluate(file: str, used: Iterable[str], told: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What Terraform makes of a file's local values, with these variables. They need no provider."""
    (values,) = re.findall(r"^locals \{\n.*?^\}\n", text_of(TERRAFORM / file), re.MULTILINE | re.DOTALL)
    variables = [f'variable "{name}" {{\n{blocks("variable")[name]}}}\n' for name in used]
    outputs = [f'output "{name}" {{\n  value = local.{name}\n}}\n' for name in told]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.tf").write_text("".join([values, *variables, *outputs]), encoding="utf-8")
        (folder / "given.auto.tfvars.json").write_text(json.dumps(given), encoding="utf-8")
        applied = run("terraform", "apply", "-auto-approve", "-no-color", "-input=false", folder=folder)
        assert applied.returncode == 0, applied.stdout + applied.stderr
        found = json.loads(run("terraform", "output", "-json", folder=folder).stdout)
    return {name: found[name]["value"] for name in told}


def blocks(kind: str) -> dict[str, str]:
    """The bodies of top-level blocks, by their last label. `terraform fmt` starts a line with the closing brace."""
    return blocks_in(HCL, kind)


def blocks_in(text: str, kind: str) -> dict[str, str]:
    return dict(re.findall(rf'^{kind} "(\w+)" \{{\n(.*?)^\}}', text, re.MULTILINE | re.DOTALL))


def resources(kind: str) -> dict[str, str]:
    return blocks(f'resource "{kind}"')


def names(pattern: str, text: str) -> set[str]:
    return set(re.findall(pattern, text, re.MULTILINE))


def lists_of(name: str) -> dict[str, set[str]]:
    """The lists of names within the local value `name`."""
    (body,) = re.findall(rf"^  {name} += (\[.*?\]|\{{.*?^  \}})$", HCL, re.MULTILINE | re.DOTALL)
    found = re.findall(r"(?:^ +(\w+) += )?\[(.*?)\]", body, re.MULTILINE | re.DOTALL)
    return {key: set(re.findall(r'"(\w+)"', values)) for key, values in found}


def inner(name: str, body: str) -> list[str]:
    """The bodies of the blocks `name` within a block's body, at any depth."""
    return [found for _, found in re.findall(rf"^( +){name} \{{\n(.*?)^\1\}}", body, re.MULTILINE | re.DOTALL)]


def arguments(body: str) -> dict[str, str]:
    """The arguments of a top-level block's body that stand on one line."""
    return dict(re.findall(r"^  (\w+) += (.*)$", body, re.MULTILINE))
