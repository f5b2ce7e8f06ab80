#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a Prometheus that watches a server what the dashboard's panels ask: dashboard.py URL DASHBOARD

Exit 1 if a query is refused, a panel has no series, or a rule cannot be evaluated.
"""
import json
import sys
import urllib.parse
import urllib.request


def ask(path, **arguments):
    with urllib.request.urlopen(f"{sys.argv[1]}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as answer:
        return json.load(answer)["data"]


failed = False
for panel in json.load(open(sys.argv[2]))["panels"]:
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".+")
        series = ask("query", query=query)["result"]
        print(f"{panel['title']}: {len(series)} series of {query}")
        failed |= not series
for group in ask("rules")["groups"]:
    for rule in group["rules"]:
        print(f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}, {rule['state']}")
        failed |= rule["health"] != "ok" or rule["state"] != "inactive"
sys.exit(failed)
