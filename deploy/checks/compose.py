#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A Compose file against the specification's schema: compose.py SCHEMA FILE    exit 1 if it does not fit

Needs Debian's python3-jsonschema and python3-yaml.
"""
import json
import sys

import jsonschema
import yaml

with open(sys.argv[1]) as schema, open(sys.argv[2]) as compose:
    found = [f"{'.'.join(map(str, error.path))}: {error.message}"
             for error in jsonschema.Draft7Validator(json.load(schema)).iter_errors(yaml.safe_load(compose))]
print(*(found or ["fits"]), sep="\n")
sys.exit(bool(found))
