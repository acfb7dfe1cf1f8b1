"""Objects around the workloads: policies of the network, autoscaler, monitoring."""

import re
from ipaddress import ip_network

from .findings import Finding

# Servers by the variable with their addresses: the name of their entry in a policy is not needed, their ports are.
SERVERS = ("ORBWEAVER_KAFKA__BROKERS", "ORBWEAVER_CQL__NODES")


def check(where: str, objects: list[dict], workloads: list[dict]) -> list[Finding]:
    """All findings."""
    of_kind: dict[str, list[dict]] = {}
    for o in objects:
        of_kind.setdefault(o["kind"], []).append(o)
    found = autoscalers(where, of_kind) + monitors(where, of_kind)
    if of_kind.get("NetworkPolicy"):
        for workload in workloads:
            found += connections(f"{where}: {workload['kind']} {workload['metadata']['name']}", workload, of_kind)
        found += networks(where, of_kind["NetworkPolicy"])
    return found


def connections(where: str, workload: dict, of_kind: dict) -> list[Finding]:
    """A pod may use the connections that it needs, and others are denied."""
    template = workload["spec"]["template"]
    policies = [o for o in of_kind["NetworkPolicy"] if o["spec"]["podSelector"].get("matchLabels", {}).items() <= template["metadata"]["labels"].items()]
    found = []
    for direction in ("Ingress", "Egress"):
        if not any(direction in o["spec"].get("policyTypes", []) for o in policies):
            found.append(Finding(where, f"no NetworkPolicy restricts its connections ({direction})"))
    rules = [rule for o in policies for rule in o["spec"].get("egress", [])]
    if any(not rule.get("to") or not rule.get("ports") for rule in rules):
        found.append(Finding(where, "a NetworkPolicy permits connections to every peer, or on every port"))
    if any(not rule.get("from") for o in policies for rule in o["spec"].get("ingress", [])):
        found.append(Finding(where, "a NetworkPolicy permits connections from every peer"))
    permitted = {entry.get("port") for rule in rules for entry in rule.get("ports", [])}
    box = template["spec"]["containers"][0]
    maps = {o["metadata"]["name"]: o.get("data", {}) for o in of_kind.get("ConfigMap", [])}
    settings = {key: value for source in box.get("envFrom", []) for key, value in maps.get(source.get("configMapRef", {}).get("name"), {}).items()}
    needed = {int(port) for name in SERVERS for port in re.findall(r":(\d+)(?:,|$)", settings.get(name, ""))} | {53}
    for port in sorted(needed - permitted):
        found.append(Finding(where, f"no NetworkPolicy permits its connections to port {port}"))
    scraped = {entry.get("port") for o in policies for rule in o["spec"].get("ingress", []) for entry in rule.get("ports", [])}
    for port in sorted({entry["name"] for entry in box.get("ports", [])} - scraped):
        found.append(Finding(where, f"no NetworkPolicy permits connections to its port {port}"))
    return found


def networks(where: str, policies: list[dict]) -> list[Finding]:
    """A network that is left out is part of the one around it; the API server refuses others."""
    found = []
    for policy in policies:
        blocks = [peer["ipBlock"] for rule in policy["spec"].get("egress", []) for peer in rule.get("to", []) if "ipBlock" in peer]
        for block in blocks:
            for inner in block.get("except", []):
                around, left_out = ip_network(block["cidr"]), ip_network(inner)
                if around.version != left_out.version or not left_out.subnet_of(around) or left_out == around:
                    found.append(Finding(f"{where}: NetworkPolicy {policy['metadata']['name']}", f"{inner} is not within {block['cidr']}"))
    return found


def autoscalers(where: str, of_kind: dict) -> list[Finding]:
    """An autoscaler has a target, whose number of instances nothing else sets."""
    found = []
    for scaler in of_kind.get("HorizontalPodAutoscaler", []):
        target = scaler["spec"]["scaleTargetRef"]
        here = f"{where}: HorizontalPodAutoscaler {scaler['metadata']['name']}"
        matching = [o for o in of_kind.get(target["kind"], []) if o["metadata"]["name"] == target["name"]]
        if len(matching) != 1 or target["kind"] != "Deployment":
            found.append(Finding(here, f"has no target that may be scaled with the load: {target['kind']} {target['name']}"))
        elif "replicas" in matching[0]["spec"]:
            found.append(Finding(here, "its target sets replicas: each upgrade would reset them"))
    return found


def monitors(where: str, of_kind: dict) -> list[Finding]:
    """A ServiceMonitor selects the headless Services, each with the port that it names, and sets the label `service`."""
    found = []
    for monitor in of_kind.get("ServiceMonitor", []):
        here, spec = f"{where}: ServiceMonitor {monitor['metadata']['name']}", monitor["spec"]
        wanted = {o["metadata"]["name"] for o in of_kind.get("Service", []) if o["spec"].get("clusterIP") == "None"}
        labels = spec["selector"]["matchLabels"].items()
        selected = {o["metadata"]["name"]: o for o in of_kind.get("Service", []) if labels <= o["metadata"].get("labels", {}).items()}
        if set(selected) != wanted:
            found.append(Finding(here, f"selects {', '.join(sorted(selected))}, not {', '.join(sorted(wanted))}"))
        for endpoint in spec["endpoints"]:
            if any(endpoint["port"] not in {port["name"] for port in o["spec"]["ports"]} for o in selected.values()):
                found.append(Finding(here, f"scrapes the port {endpoint['port']}, which not every Service has"))
            if not endpoint.get("honorLabels") or "service" not in {rule.get("targetLabel") for rule in endpoint.get("relabelings", [])}:
                found.append(Finding(here, "does not set the label service, or does not honour that of the metrics"))
    return found
