#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rendered manifests, by themselves and together: kubernetes.py SCHEMAS SERVER LOAD    exit 1 if something is wrong

SERVER and LOAD are what kustomize makes of deploy/kubernetes and of its load/. Each manifest is held against Kubernetes'
own schemas: SCHEMAS is a folder of OpenAPI v3 documents, api/v1.json and apis/GROUP/VERSION.json, as the module
sigs.k8s.io/kubectl-validate has them for each version. Fields that a schema does not name are refused, as an API server
does under strict validation. Then all of them are applied to a model of a cluster, which also has pods that are not ours:
whom each selector selects, and who may connect to whom. Needs Debian's python3-jsonschema and python3-yaml.
"""
import json
import pathlib
import sys
import urllib.parse

import jsonschema
import yaml

# The namespaces of the model, with their labels. Manifests that name none go into the first.
NAMESPACES = {"ours": {}, "monitoring": {"bwos-access": "true"}, "elsewhere": {}}


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


class Pod:
    def __init__(self, namespace, labels, ports):
        self.namespace, self.labels = namespace, labels
        self.ports = ports  # by name, as policies and services may ask for them


def pod_of(workload):
    """The pod that a Deployment or a Job makes."""
    template = workload["spec"]["template"]
    return Pod(namespace_of(workload), template["metadata"].get("labels", {}),
               {port["name"]: port["containerPort"]
                for container in template["spec"]["containers"] for port in container.get("ports", [])})


def namespace_of(manifest):
    return manifest["metadata"].get("namespace", next(iter(NAMESPACES)))


def matches(selector, labels):
    """A LabelSelector: an empty one matches everything, none at all matches nothing."""
    if selector is None:
        return False
    for wanted in selector.get("matchExpressions", []):
        has, is_one = wanted["key"] in labels, labels.get(wanted["key"]) in wanted.get("values", [])
        if not {"In": has and is_one, "NotIn": not is_one, "Exists": has, "DoesNotExist": not has}[wanted["operator"]]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def is_peer(peer, pod, policy):
    """Whether one entry of from or to means the pod. An ipBlock is for what is no pod."""
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer:
        near = matches(peer["namespaceSelector"], NAMESPACES[pod.namespace])
    else:
        near = pod.namespace == namespace_of(policy)
    return near and matches(peer.get("podSelector", {}), pod.labels)


def is_port(wanted, port, target):
    """Whether one entry of ports means this TCP port of the pod that is connected to."""
    if wanted.get("protocol", "TCP") != "TCP":
        return False
    first = wanted.get("port", port)
    first = target.ports.get(first) if isinstance(first, str) else first
    return first is not None and first <= port <= wanted.get("endPort", first)


def selects(policy, pod):
    return pod.namespace == namespace_of(policy) and matches(policy["spec"]["podSelector"], pod.labels)


def lets(policies, direction, pod, other, port):
    """Whether the policies that select the pod, if there are any, let it connect ("Egress") or be connected to."""
    rules, peers, target = ("egress", "to", other) if direction == "Egress" else ("ingress", "from", pod)
    selecting = [policy for policy in policies if selects(policy, pod) and direction in policy["spec"].get(
        "policyTypes", ["Ingress"] + ["Egress"] * ("egress" in policy["spec"]))]
    return not selecting or any(
        (not rule.get(peers) or any(is_peer(peer, other, policy) for peer in rule[peers]))
        and (not rule.get("ports") or any(is_port(wanted, port, target) for wanted in rule["ports"]))
        for policy in selecting for rule in policy["spec"].get(rules, []))


def faults(server_manifests, load_manifests):
    """What is wrong with whom they select and whom they let connect; prints what it looks at."""
    manifests = server_manifests + load_manifests
    of_kind = {kind: [each for each in manifests if each["kind"] == kind] for kind in (
        "Deployment", "Job", "Service", "PodDisruptionBudget", "NetworkPolicy", "HorizontalPodAutoscaler")}
    (deployment,), (job,), (service,), (budget,), (autoscaler,) = (of_kind[kind] for kind in (
        "Deployment", "Job", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"))
    pods = {
        "the server": pod_of(deployment),
        "the load job": pod_of(job),
        "a neighbour": Pod(namespace_of(deployment), {"app.kubernetes.io/name": "database"}, {}),
        "a pod without labels": Pod(namespace_of(deployment), {}, {}),
        "Prometheus": Pod("monitoring", {"app.kubernetes.io/name": "prometheus"}, {}),
        "a stranger": Pod("elsewhere", {"app.kubernetes.io/name": "bwos-server"}, {}),
    }
    server, found = pods["the server"], []
    others = [name for name in pods if name != "the server"]

    def expect(what, is_so, should):
        print(f"{what}: {is_so}")
        if is_so != should:
            found.append(f"{what}: {is_so}, but should be {should}")

    # Who is selected.
    selectors = [(deployment, deployment["spec"]["selector"]), (budget, budget["spec"].get("selector")),
                 (service, {"matchLabels": service["spec"]["selector"]} if service["spec"].get("selector") else None)]
    selectors += [(policy, policy["spec"]["podSelector"]) for policy in of_kind["NetworkPolicy"]]
    selectors += [(deployment, constraint.get("labelSelector"))
                  for constraint in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", [])]
    for manifest, selector in selectors:
        expect(f"{manifest['kind']} {manifest['metadata']['name']} selects",
               [name for name, pod in pods.items()
                if pod.namespace == namespace_of(manifest) and matches(selector, pod.labels)], ["the server"])
    scaled = autoscaler["spec"]["scaleTargetRef"]
    expect("the autoscaler scales the Deployment", (scaled["apiVersion"], scaled["kind"], scaled["name"]),
           (deployment["apiVersion"], deployment["kind"], deployment["metadata"]["name"]))

    # Who may connect to whom.
    def may_connect(source, target, port):
        policies = of_kind["NetworkPolicy"]
        return (lets(policies, "Egress", pods[source], pods[target], port)
                and lets(policies, "Ingress", pods[target], pods[source], port))

    http, grpc = server.ports["http"], server.ports["grpc"]
    welcome = {"the load job", "a neighbour", "a pod without labels", "Prometheus"}
    for source in others:
        for port, is_served in ((http, True), (grpc, True), (http + 1, False)):
            expect(f"{source} may connect to port {port} of the server", may_connect(source, "the server", port),
                   is_served and source in welcome)
        expect(f"the server may connect to {source}", may_connect("the server", source, 53), False)
    for source in others:  # none of our business
        for target in others:
            if source != target:
                expect(f"{source} may connect to {target}", may_connect(source, target, 5432), True)

    # The ways that the manifests name: the Service's ports, the Job's address, Prometheus' annotation.
    reached = {port["port"]: server.ports.get(port["targetPort"], port["targetPort"])
               for port in service["spec"]["ports"]}
    expect("the Service leads to ports", sorted(reached.values()), sorted([http, grpc]))
    (url,) = [argument for container in job["spec"]["template"]["spec"]["containers"]
              for argument in container["args"] if "://" in argument]
    address = urllib.parse.urlsplit(url)
    expect("the Job asks the Service", address.hostname, service["metadata"]["name"])
    expect("the Job asks the Service's port that leads to", reached.get(address.port), http)
    annotations = deployment["spec"]["template"]["metadata"].get("annotations", {})
    expect("Prometheus is told to scrape port", annotations.get("prometheus.io/port"), str(http))
    return found


def manifests_of(path):
    return list(yaml.safe_load_all(pathlib.Path(path).read_text()))


failed = False
for manifest in manifests_of(sys.argv[2]) + manifests_of(sys.argv[3]):
    wrong = complaints(manifest, pathlib.Path(sys.argv[1]))
    print(f"{manifest['kind']} {manifest['metadata']['name']}:", *(wrong or ["fits"]), sep="\n  ")
    failed |= bool(wrong)
wrong = faults(manifests_of(sys.argv[2]), manifests_of(sys.argv[3]))
print(*[f"WRONG: {each}" for each in wrong], sep="\n")
sys.exit(failed or bool(wrong))
