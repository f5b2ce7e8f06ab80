#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Manifests against Kubernetes' own schemas: kubernetes.py SCHEMAS FILE...    exit 1 if one does not fit

SCHEMAS is a folder of OpenAPI v3 documents, api/v1.json and apis/GROUP/VERSION.json, as the module
sigs.k8s.io/kubectl-validate has them for each version. Fields that a schema does not name are refused, as an API server
does under strict validation. Needs Debian's python3-jsonschema and python3-yaml.
"""
import json
import pathlib
import sys

import jsonschema
import yaml


def make_strict(node):
    """Refuses unknown fields, and turns {allOf: [ref], default: ...} into the ref, which is all that it means."""
    if isinstance(node, list):
        for child in node:
            make_strict(child)
    if isinstance(node, dict):
        if "properties" in node:
            node.setdefault("additionalProperties", False)
        if len(node.get("allOf", [])) == 1:
            node.update(node.pop("allOf")[0])
        for child in node.values():
            make_strict(child)


def complaints(manifest, schemas):
    group, _, version = manifest["apiVersion"].rpartition("/")
    openapi = json.loads((schemas / ("apis" if group else "api") / group / f"{version}.json").read_text())
    make_strict(openapi)
    wanted = {"group": group, "version": version, "kind": manifest["kind"]}
    name = next(name for name, schema in openapi["components"]["schemas"].items()
                if wanted in schema.get("x-kubernetes-group-version-kind", []))
    schema = {"$ref": f"#/components/schemas/{name}", "components": openapi["components"]}
    return [f"{'.'.join(map(str, error.path))}: {error.message}"
            for error in jsonschema.Draft7Validator(schema).iter_errors(manifest)]


failed = False
for path in sys.argv[2:]:
    for manifest in yaml.safe_load_all(pathlib.Path(path).read_text()):
        found = complaints(manifest, pathlib.Path(sys.argv[1]))
        print(f"{manifest['kind']} {manifest['metadata']['name']}:", *(found or ["fits"]), sep="\n  ")
        failed |= bool(found)
sys.exit(failed)
