"""The objects that the chart makes with the values of a profile."""

from . import objects as around
from .facts import Facts
from .findings import Finding, grace, image, listens, program, required, variables

WORKLOADS = ("Deployment", "StatefulSet", "Job")
# What encrypts the connections to the servers in a variable: another variable, and its values.
ENCRYPTION = {
    "ORBWEAVER_KAFKA__BROKERS": ("ORBWEAVER_KAFKA__PROPERTIES__SECURITY__PROTOCOL", {"ssl", "sasl_ssl"}),
    "ORBWEAVER_CQL__NODES": ("ORBWEAVER_CQL__TLS", {"true"}),
}
AUTHORITIES = ("ORBWEAVER_KAFKA__PROPERTIES__SSL__CA__LOCATION", "ORBWEAVER_CQL__TLS_CA")
# Secrets that a program would refuse, made up otherwise.
MADE_UP = {"ORBWEAVER_URLSTORE__TOKEN_SHA256": "0" * 64, "ORBWEAVER_FETCHER__PROXY": "http://proxy.example.org:3128"}
LABELS = [f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "component", "part-of", "managed-by")]


def check(where: str, objects: list[dict], facts: Facts) -> list[Finding]:
    """All findings in the objects of one profile."""
    of_kind = {kind: [o for o in objects if o["kind"] == kind] for kind in {o["kind"] for o in objects}}
    workloads = [o for kind in WORKLOADS for o in of_kind.get(kind, [])]
    found = []
    for workload in workloads:
        here = f"{where}: {workload['kind']} {workload['metadata']['name']}"
        found += hardening(here, workload) + labelled(here, workload, facts) + container(here, workload, of_kind, facts)
        found += encryption(here, workload, environment(workload, of_kind))
        which = facts.by_binary(program(first(workload).get("command")) or "")
        if which:
            found += service(here, workload, which, of_kind, facts)
    deployed = [program(first(workload).get("command")) for workload in workloads]
    for known in facts.services.values():
        if deployed.count(known.binary) != 1:
            found.append(Finding(where, f"{known.binary} is deployed {deployed.count(known.binary)} times"))
    if "orbweaver" not in deployed:
        found.append(Finding(where, "no Job makes the topics"))
    for account in of_kind.get("ServiceAccount", []):
        if account.get("automountServiceAccountToken") is not False:
            found.append(Finding(where, f"ServiceAccount {account['metadata']['name']}: its token is mounted"))
    return found + around.check(where, objects, workloads)


def pod(workload: dict) -> dict:
    """The specification of its pods."""
    return workload["spec"]["template"]["spec"]


def first(workload: dict) -> dict:
    """Its container."""
    return pod(workload)["containers"][0]


def environment(workload: dict, of_kind: dict) -> dict[str, str | None]:
    """The variables of its container: from ConfigMaps, then its own; those that are known only in the cluster have no value."""
    result: dict[str, str | None] = {}
    maps = {o["metadata"]["name"]: o.get("data", {}) for o in of_kind.get("ConfigMap", [])}
    for source in first(workload).get("envFrom", []):
        result.update(maps.get(source.get("configMapRef", {}).get("name"), {}))
    result.update({entry["name"]: entry.get("value") for entry in first(workload).get("env", [])})
    return result


def hardening(where: str, workload: dict) -> list[Finding]:
    """Nothing runs as root, writes to its image or talks to the API."""
    spec, box = pod(workload), first(workload).get("securityContext", {})
    outer = spec.get("securityContext", {})
    rules = {
        "runAsNonRoot is not true": outer.get("runAsNonRoot") is True and (outer.get("runAsUser") or 0) > 0,
        "seccompProfile is not RuntimeDefault": outer.get("seccompProfile", {}).get("type") == "RuntimeDefault",
        "readOnlyRootFilesystem is not true": box.get("readOnlyRootFilesystem") is True,
        "allowPrivilegeEscalation is not false": box.get("allowPrivilegeEscalation") is False,
        "capabilities are not dropped": box.get("capabilities") == {"drop": ["ALL"]},
        "enableServiceLinks is not false": spec.get("enableServiceLinks") is False,
        "automountServiceAccountToken is not false": spec.get("automountServiceAccountToken") is False,
        "serviceAccountName is not set": bool(spec.get("serviceAccountName")),
        "it has more than one container, and only the first is checked": len(spec["containers"]) == 1 and not spec.get("initContainers"),
    }
    if workload["kind"] == "Job":
        rules["restartPolicy is not OnFailure"] = spec.get("restartPolicy") == "OnFailure"
    return [Finding(where, what) for what, holds in rules.items() if not holds]


def labelled(where: str, workload: dict, facts: Facts) -> list[Finding]:
    """The recommended labels, and selectors that select."""
    found = []
    template = workload["spec"]["template"]["metadata"]["labels"]
    for part, labels in (("it", workload["metadata"].get("labels", {})), ("its pods", template)):
        found += [Finding(where, f"{part} has no label {name}") for name in LABELS if name not in labels]
        if labels.get("app.kubernetes.io/version", facts.version) != facts.version:
            found.append(Finding(where, f"{part} has another version than the workspace"))
    selector = workload["spec"].get("selector", {}).get("matchLabels", {})
    if not selector.items() <= template.items():
        found.append(Finding(where, "its selector does not match its pods"))
    if "app.kubernetes.io/version" in selector:
        found.append(Finding(where, "its selector has the version: a new one could not be applied"))
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        if "app.kubernetes.io/version" in claim["metadata"].get("labels", {}):
            found.append(Finding(where, "a volume claim has the version as a label: a new one could not be applied"))
    return found


def container(where: str, workload: dict, of_kind: dict, facts: Facts) -> list[Finding]:
    """What starts, from which image, with which variables and how much of the machine."""
    box = first(workload)
    binary = program(box.get("command"))
    found = image(where, box["image"], f"orbweaver:{facts.version}")
    if binary not in facts.programs:
        found.append(Finding(where, f"starts {binary}, and the workspace has no such binary"))
    found += variables(where, environment(workload, of_kind), facts)
    resources = box.get("resources", {})
    if not {"cpu", "memory"} <= resources.get("requests", {}).keys() or "memory" not in resources.get("limits", {}):
        found.append(Finding(where, "needs requests of cpu and memory, and a limit of memory"))
    known = {o["metadata"]["name"] for o in of_kind.get("ConfigMap", [])}
    for source in box.get("envFrom", []):
        name = source.get("configMapRef", {}).get("name")
        if name and name not in known:
            found.append(Finding(where, f"takes variables from the ConfigMap {name}, which there is not"))
    accounts = {o["metadata"]["name"] for o in of_kind.get("ServiceAccount", [])}
    if pod(workload).get("serviceAccountName") not in accounts:
        found.append(Finding(where, "its ServiceAccount is not there"))
    return found


def encryption(where: str, workload: dict, env: dict) -> list[Finding]:
    """Credentials that a pod demands are sent over TLS only, and files with secrets or of authorities are mounted."""
    found = []
    secrets = [source["secretRef"] for source in first(workload).get("envFrom", []) if "secretRef" in source]
    single = [entry["name"] for entry in first(workload).get("env", []) if "secretKeyRef" in entry.get("valueFrom", {})]
    if any(not secret.get("optional") for secret in secrets) or any("PASSWORD" in name for name in single):
        for servers, (variable, values) in ENCRYPTION.items():
            if env.get(servers) and (env.get(variable) or "").lower() not in values:
                found.append(Finding(where, f"it demands credentials, and {variable} does not encrypt the connections to {servers}"))
    protocol = (env.get("ORBWEAVER_KAFKA__PROPERTIES__SECURITY__PROTOCOL") or "").lower()
    if protocol.startswith("sasl") and not env.get("ORBWEAVER_KAFKA__PROPERTIES__SASL__MECHANISM"):
        found.append(Finding(where, "it logs in to the brokers without ORBWEAVER_KAFKA__PROPERTIES__SASL__MECHANISM"))
    volumes = {volume["name"] for volume in pod(workload).get("volumes", [])}
    mounts = [mount["mountPath"] for mount in first(workload).get("volumeMounts", []) if mount["name"] in volumes]
    for variable in (*AUTHORITIES, *(name for name in env if name.endswith("_FILE"))):
        file = env.get(variable)
        if file and not any(file.startswith(f"{mount}/") for mount in mounts):
            found.append(Finding(where, f"{variable} names {file}, where nothing is mounted"))
    return found


def service(where: str, workload: dict, which, of_kind: dict, facts: Facts) -> list[Finding]:
    """What holds for the services, not for the Job."""
    env = environment(workload, of_kind)
    found = required(where, env, which.name, facts)
    found += listens(where, env.get("ORBWEAVER_HTTP__LISTEN"), which.port)
    found += grace(where, pod(workload).get("terminationGracePeriodSeconds"), env, facts)
    found += probes(where, first(workload), which.port, facts)
    template = workload["spec"]["template"]["metadata"]["labels"]
    for kind, selector_of in (("Service", lambda o: o["spec"]["selector"]), ("PodDisruptionBudget", lambda o: o["spec"]["selector"]["matchLabels"])):
        matching = [o for o in of_kind.get(kind, []) if selector_of(o).items() <= template.items()]
        # A Service for the clients of an API is one of its own.
        matching = [o for o in matching if [port["name"] for port in o["spec"].get("ports", [])] != ["api"]]
        if len(matching) != 1:
            found.append(Finding(where, f"has {len(matching)} objects of kind {kind}, not one"))
        elif kind == "Service" and matching[0]["spec"].get("clusterIP") != "None":
            found.append(Finding(where, "its Service is not headless, so that only one pod would be scraped"))
    spread = pod(workload).get("topologySpreadConstraints", [])
    if not spread or any(not rule.get("labelSelector", {}).get("matchLabels", {}).items() <= template.items() for rule in spread):
        found.append(Finding(where, "is not spread over nodes, or by labels that its pods do not have"))
    strategy = workload["spec"].get("strategy", {}).get("rollingUpdate", {})
    if workload["kind"] == "Deployment" and (strategy.get("maxUnavailable"), strategy.get("maxSurge")) != (1, 0):
        found.append(Finding(where, "is not updated one pod at a time"))
    return found + (state(where, workload, env) if facts.reads(which.name, "state.dir") else [])


def probes(where: str, box: dict, port: int, facts: Facts) -> list[Finding]:
    """The three probes ask for what there is, on the port that the program listens on."""
    found = []
    ports = {entry["name"]: entry["containerPort"] for entry in box.get("ports", [])}
    if ports.get("http") != port:
        found.append(Finding(where, f"its port http is {ports.get('http')}, its binary listens on {port}"))
    for name, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = box.get(name, {}).get("httpGet", {})
        if asked.get("path") != path or path not in facts.routes or asked.get("port") != "http":
            found.append(Finding(where, f"its {name} asks for {asked.get('path')} on {asked.get('port')}, not for {path} on http"))
    return found


def state(where: str, workload: dict, env: dict) -> list[Finding]:
    """A service with an index has a volume and a name of its own."""
    if workload["kind"] != "StatefulSet":
        return [Finding(where, "has an index on disk and is no StatefulSet")]
    found = []
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    mounts = {mount["mountPath"]: mount["name"] for mount in first(workload).get("volumeMounts", [])}
    if mounts.get(env.get("ORBWEAVER_STATE__DIR")) not in claims:
        found.append(Finding(where, "ORBWEAVER_STATE__DIR is not on a volume of its own"))
    entries = {entry["name"]: entry for entry in first(workload).get("env", [])}
    name = entries.get("ORBWEAVER_KAFKA__INSTANCE_ID", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    if name != "metadata.name":
        found.append(Finding(where, "ORBWEAVER_KAFKA__INSTANCE_ID is not the name of the pod"))
    if workload["spec"].get("podManagementPolicy") != "Parallel":
        found.append(Finding(where, "podManagementPolicy is not Parallel: one instance that is not ready would keep the others from starting"))
    return found


def commands(objects: list[dict]) -> list[tuple[str, str, dict[str, str]]]:
    """What is to be asked with --check-config: name, binary, environment. What only a cluster knows is made up."""
    of_kind = {kind: [o for o in objects if o["kind"] == kind] for kind in {o["kind"] for o in objects}}
    result = []
    for workload in (o for kind in WORKLOADS for o in of_kind.get(kind, [])):
        env = {name: value or MADE_UP.get(name, "1") for name, value in environment(workload, of_kind).items()}
        result.append((workload["metadata"]["name"], program(first(workload).get("command")) or "", env))
    return result
