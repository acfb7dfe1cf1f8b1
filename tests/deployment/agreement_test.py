"""What is planted is found: every rule, on documents that are right but for one thing."""

import copy
import tempfile
import unittest
from pathlib import Path

from consistency import compose, docker, kubernetes, literals, monitoring, texts
from consistency.__main__ import settings
from consistency.facts import Facts, Key, Service, Unreadable

SERVICES = frozenset({"frontier", "fetcher"})
FACTS = Facts(
    services={"frontier": Service("frontier", "orbweaver-frontier", 9462), "fetcher": Service("fetcher", "orbweaver-fetcher", 9464)},
    keys=[
        Key("kafka.brokers", None, True, SERVICES),
        Key("kafka.instance_id", None, False, SERVICES),
        Key("kafka.properties.*", None, False, SERVICES, "name"),
        Key("cql.nodes", None, True, frozenset({"fetcher"})),
        Key("cql.password", None, False, frozenset({"fetcher"}), "kind"),
        Key("fetcher.headers.*", None, False, frozenset({"fetcher"}), "caution"),
        Key("cql.tls", "false", False, frozenset({"fetcher"})),
        Key("cql.tls_ca", None, False, frozenset({"fetcher"})),
        Key("http.listen", None, False, SERVICES),
        Key("state.dir", "state", False, frozenset({"frontier"})),
        Key("runtime.shutdown_budget", "20s", False, SERVICES),
        Key("runtime.drain_budget", "20s", False, SERVICES),
    ],
    secret_names=frozenset({"password", "pem", "authorization"}),
    programs=frozenset({"orbweaver", "orbweaver-frontier", "orbweaver-fetcher"}),
    with_tls=frozenset({"orbweaver", "orbweaver-frontier", "orbweaver-fetcher"}),
    members=frozenset({"crates/log", "services/frontier", "tests/pipeline"}),
    routes=frozenset({"/livez", "/readyz", "/metrics"}),
    topics=frozenset({"crawl.seeds"}),
    metrics=frozenset({"orbweaver_stage_lag_records", "orbweaver_fetcher_request_seconds"}),
    version="0.1.0",
    toolchain="1.95.0",
)


class Planted(unittest.TestCase):
    """Changes a good document in one place and reads the findings."""

    def only(self, found, part):
        """There is one finding, and it says this."""
        said = [str(finding) for finding in found]
        self.assertEqual(len(said), 1, said)
        self.assertIn(part, said[0])

    def each(self, good, check, cases):
        """Each case: what is changed (a function), what is said."""
        self.assertEqual([str(finding) for finding in check(good)], [])
        for change, part in cases:
            with self.subTest(part):
                document = copy.deepcopy(good)
                changed = change(document)
                self.only(check(document if changed is None else changed), part)


DOCKERFILE = """\
ARG RUST_VERSION=1.95.0
# FROM nothing:latest
FROM rust:${RUST_VERSION}-slim AS build
RUN cargo build --locked --features tls \\
    --package orbweaver-frontier --package orbweaver-fetcher --package orbweaver \\
    && install --target-directory=/out target/dist/orbweaver-frontier target/dist/orbweaver-fetcher target/dist/orbweaver
FROM gcr.io/distroless/cc-debian13:nonroot
ARG VERSION=0.1.0
LABEL org.opencontainers.image.version="${VERSION}"
USER 65532:65532
EXPOSE 9462 9464
STOPSIGNAL SIGTERM
COPY --from=build /out/ /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/orbweaver"]
"""
IGNORE = "*\n!Cargo.lock\n!Cargo.toml\n!crates\n!schemas\n!services\n!tests\n**/target\n"


class Dockerfile(Planted):
    def test_every_fault_is_found(self):
        def swap(old, new):
            return lambda text: text.replace(old, new)

        self.each(
            DOCKERFILE,
            lambda text: docker.check(text, IGNORE, FACTS),
            [
                (swap("1.95.0", "1.94.0"), "RUST_VERSION is 1.94.0"),
                (swap("VERSION=0.1.0", "VERSION=0.2.0"), "ARG VERSION is 0.2.0"),
                (swap("cc-debian13:nonroot", "cc-debian13:latest"), "no fixed tag"),
                (swap("cc-debian13:nonroot", "cc-debian13"), "no fixed tag"),
                (swap("target/dist/orbweaver-fetcher ", ""), "orbweaver-fetcher is not copied"),
                (swap("target/dist/orbweaver-fetcher ", "target/dist/orbweaver-fetcher target/dist/bench "), "bench is copied, but not built"),
                (swap("/out/ /usr/local/bin/", "/out/ /opt/"), "not in /usr/local/bin"),
                (swap("/usr/local/bin/orbweaver\"", "/opt/orbweaver\""), "not in /usr/local/bin"),
                (swap("--features tls", ""), "--features tls"),
                (swap("65532:65532", "nonroot"), "USER is nonroot"),
                (swap("65532:65532", "0"), "USER is 0"),
                (swap("USER", "RUN true\nUSER"), "has a shell"),
                (swap("SIGTERM", "SIGKILL"), "STOPSIGNAL"),
                (swap('["/usr/local/bin/orbweaver"]', "/usr/local/bin/orbweaver"), "ENTRYPOINT"),
                (swap("EXPOSE 9462 9464", "EXPOSE 9462 80"), "EXPOSE says [80, 9462]"),
                (swap("image.version", "image.vendor"), "label"),
            ],
        )

    def test_a_program_that_does_not_exist_or_has_no_tls_is_found(self):
        without = Facts(**{**FACTS.__dict__, "programs": FACTS.programs - {"orbweaver-fetcher"}})
        self.only(docker.check(DOCKERFILE, IGNORE, without), "orbweaver-fetcher is built, and the workspace has no such binary")
        without = Facts(**{**FACTS.__dict__, "with_tls": FACTS.with_tls - {"orbweaver-fetcher"}})
        self.only(docker.check(DOCKERFILE, IGNORE, without), "is not built by --features tls")

    def test_a_member_of_the_workspace_that_stays_behind_is_found(self):
        self.only(docker.check(DOCKERFILE, IGNORE.replace("!tests\n", ""), FACTS), "tests/pipeline does not reach")
        self.only(docker.check(DOCKERFILE, IGNORE + "!.git\n", FACTS), ".git reaches the builder")


def program(name, port, **environment):
    return {
        "image": "orbweaver:0.1.0",
        "pull_policy": "never",
        "entrypoint": [f"/usr/local/bin/orbweaver-{name}"],
        "environment": {"ORBWEAVER_KAFKA__BROKERS": "kafka:9092", "ORBWEAVER_HTTP__LISTEN": f"0.0.0.0:{port}", **environment},
        "depends_on": {"kafka": {"condition": "service_healthy"}},
        "stop_grace_period": "45s",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "deploy": {"resources": {"limits": {"memory": "1G"}}},
    }


COMPOSE = {
    "services": {
        "kafka": {
            "image": "apache/kafka:4.3.0",
            "ports": ["127.0.0.1:9094:9094"],
            "healthcheck": {"test": ["CMD", "true"]},
            "deploy": {"resources": {"limits": {"memory": "1G"}}},
        },
        "frontier": {**program("frontier", 9462, ORBWEAVER_STATE__DIR="/state"), "build": ".", "volumes": ["frontier:/state"]},
        "fetcher": program("fetcher", 9464, ORBWEAVER_CQL__NODES="kafka:9042"),
    }
}


class Compose(Planted):
    def test_every_fault_is_found(self):
        def put(service, key, value):
            return lambda document: document["services"][service].__setitem__(key, value)

        def variable(service, key, value):
            return lambda document: document["services"][service]["environment"].__setitem__(key, value)

        def without(service, key):
            return lambda document: document["services"][service].pop(key) and None

        self.each(
            COMPOSE,
            lambda document: compose.check(document, FACTS),
            [
                (lambda d: d["services"].pop("fetcher") and None, "orbweaver-fetcher is not among them"),
                (put("kafka", "image", "apache/kafka:latest"), "no fixed tag"),
                (put("kafka", "image", "apache/kafka"), "no fixed tag"),
                (put("kafka", "ports", ["9094:9094"]), "not published on loopback"),
                (put("kafka", "ports", ["0.0.0.0:9094:9094"]), "not published on loopback"),
                (put("kafka", "ports", [{"target": 9094, "published": "9094"}]), "not published on loopback"),
                (put("kafka", "network_mode", "host"), "network_mode"),
                (without("kafka", "deploy"), "no limit"),
                (put("fetcher", "image", "orbweaver:0.2.0"), "not orbweaver:0.1.0"),
                (put("fetcher", "depends_on", {"kafka": {"condition": "service_completed_successfully"}}), "started again"),
                (put("fetcher", "depends_on", {"zookeeper": {"condition": "service_started"}}), "depends on zookeeper"),
                (put("fetcher", "volumes", ["./no/such/folder:/x"]), "mounts ./no/such/folder"),
                (without("fetcher", "pull_policy"), "does not build its image"),
                (put("fetcher", "build", "."), "2 of them build the image"),
                (put("fetcher", "stop_grace_period", "25s"), "gets 25 seconds"),
                (without("fetcher", "stop_grace_period"), "the default of seconds"),
                (without("fetcher", "read_only"), "needs read_only"),
                (variable("fetcher", "ORBWEAVER_KAFKA__BROKER", "x"), "kafka.broker, which there is not"),
                (variable("fetcher", "ORBWEAVER_BROKERS", "x"), "no variable of ours"),
                (variable("fetcher", "ORBWEAVER_KAFKA__BROKERS", "kafka:9092,broker:9092"), "names broker"),
                (variable("fetcher", "ORBWEAVER_HTTP__LISTEN", "127.0.0.1:9464"), "nobody reaches"),
                (variable("fetcher", "ORBWEAVER_HTTP__LISTEN", "0.0.0.0:80"), "port 80"),
                (variable("fetcher", "ORBWEAVER_RUNTIME__SHUTDOWN_BUDGET", "40s"), "need 50"),
                (lambda d: d["services"]["fetcher"]["environment"].pop("ORBWEAVER_CQL__NODES") and None, "cql.nodes must be set"),
                (variable("frontier", "ORBWEAVER_STATE__DIR", "/elsewhere"), "no volume"),
            ],
        )

    def test_a_service_that_is_waited_for_has_a_healthcheck(self):
        document = copy.deepcopy(COMPOSE)
        del document["services"]["kafka"]["healthcheck"]
        self.assertEqual(len(compose.check(document, FACTS)), 2)

    def test_settings_are_asked_for_as_they_are_when_nobody_sets_a_variable(self):
        document = copy.deepcopy(COMPOSE)
        document["services"]["fetcher"]["environment"]["ORBWEAVER_FETCHER__CONTACT"] = "${CONTACT:-nobody}${EMPTY}"
        environment = {name: env for name, _, env in compose.commands(document)}["fetcher"]
        self.assertEqual(environment["ORBWEAVER_FETCHER__CONTACT"], "nobody")


LABELS = {f"app.kubernetes.io/{name}": "x" for name in ("name", "instance", "part-of", "managed-by")}


def workload(kind, name, port, **environment):
    labels = {**LABELS, "app.kubernetes.io/version": "0.1.0", "app.kubernetes.io/component": name}
    variables = {"ORBWEAVER_HTTP__LISTEN": f"0.0.0.0:{port}", **environment}

    def probe(path):
        return {"httpGet": {"path": path, "port": "http"}}

    box = {
        "name": name,
        "image": "orbweaver:0.1.0",
        "command": [f"/usr/local/bin/orbweaver-{name}"],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "envFrom": [{"configMapRef": {"name": "shared"}}],
        "ports": [{"name": "http", "containerPort": port}],
        "startupProbe": probe("/livez"),
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": "orbweaver",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app.kubernetes.io/component": name}}}],
        "containers": [box],
    }
    spec = {
        "selector": {"matchLabels": {"app.kubernetes.io/component": name}},
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    return {"kind": kind, "metadata": {"name": name, "labels": dict(labels)}, "spec": spec}


def cluster():
    """Objects by what the tests call them."""
    frontier = workload("StatefulSet", "frontier", 9462, ORBWEAVER_STATE__DIR="/state")
    frontier["spec"].update(podManagementPolicy="Parallel", volumeClaimTemplates=[{"metadata": {"name": "state"}}])
    box = frontier["spec"]["template"]["spec"]["containers"][0]
    box["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    box["env"].append({"name": "ORBWEAVER_KAFKA__INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    fetcher = workload("Deployment", "fetcher", 9464, ORBWEAVER_CQL__NODES="db:9042")
    fetcher["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    topics = workload("Job", "topics", 1)
    topics["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    topics["spec"]["template"]["spec"]["containers"][0].update(command=["/usr/local/bin/orbweaver"])
    objects = {"frontier": frontier, "fetcher": fetcher, "topics": topics}
    for name in ("frontier", "fetcher"):
        labels = {"app.kubernetes.io/component": name}
        objects[f"{name} service"] = {"kind": "Service", "metadata": {"name": name}, "spec": {"clusterIP": "None", "selector": labels}}
        objects[f"{name} budget"] = {"kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}}}
    objects["account"] = {"kind": "ServiceAccount", "metadata": {"name": "orbweaver"}, "automountServiceAccountToken": False}
    objects["map"] = {"kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"ORBWEAVER_KAFKA__BROKERS": "b:9092"}}
    return objects


class Kubernetes(Planted):
    def test_every_fault_is_found(self):
        def inside(name, *path):
            def reach(objects):
                part = objects[name]
                for step in path:
                    part = part[step]
                return part

            return reach

        def put(where, key, value):
            return lambda objects: where(objects).__setitem__(key, value)

        def variable(name, key, value):
            def change(objects):
                box(name)(objects)["env"] = [e for e in box(name)(objects)["env"] if e["name"] != key] + [{"name": key, "value": value}]

            return change

        def box(name):
            return inside(name, "spec", "template", "spec", "containers", 0)

        pod = inside("fetcher", "spec", "template", "spec")
        state = inside("frontier", "spec")
        security = inside("fetcher", "spec", "template", "spec", "securityContext")
        inner = inside("fetcher", "spec", "template", "spec", "containers", 0, "securityContext")
        labels = inside("fetcher", "spec", "template", "metadata", "labels")
        self.each(
            cluster(),
            lambda objects: kubernetes.check("o", list(objects.values()), FACTS),
            [
                (lambda o: o.pop("topics") and None, "no Job makes the topics"),
                (lambda o: o.__setitem__("fetcher", {**o["fetcher"], "kind": "Namespace"}), "orbweaver-fetcher is deployed 0 times"),
                (put(security, "runAsNonRoot", False), "runAsNonRoot"),
                (put(security, "runAsUser", 0), "runAsNonRoot"),
                (put(security, "seccompProfile", {"type": "Unconfined"}), "seccompProfile"),
                (put(inner, "readOnlyRootFilesystem", False), "readOnlyRootFilesystem"),
                (put(inner, "allowPrivilegeEscalation", True), "allowPrivilegeEscalation"),
                (put(inner, "capabilities", {"drop": ["ALL"], "add": ["NET_RAW"]}), "capabilities"),
                (put(pod, "enableServiceLinks", True), "enableServiceLinks"),
                (put(pod, "automountServiceAccountToken", True), "automountServiceAccountToken"),
                (put(pod, "serviceAccountName", "default"), "ServiceAccount is not there"),
                (put(inside("topics", "spec", "template", "spec"), "restartPolicy", "Always"), "restartPolicy is not OnFailure"),
                (put(pod, "initContainers", [{}]), "more than one container"),
                (put(pod, "terminationGracePeriodSeconds", 20), "gets 20 seconds"),
                (put(pod, "topologySpreadConstraints", []), "not spread"),
                (put(pod, "topologySpreadConstraints", [{"maxSkew": 1, "labelSelector": {"matchLabels": {"app": "x"}}}]), "not spread"),
                (put(inside("account"), "automountServiceAccountToken", True), "its token is mounted"),
                (lambda o: labels(o).pop("app.kubernetes.io/instance") and None, "its pods has no label app.kubernetes.io/instance"),
                (put(labels, "app.kubernetes.io/version", "0.2.0"), "another version"),
                (put(inside("fetcher", "spec"), "selector", {"matchLabels": {"app": "x"}}), "does not match its pods"),
                (lambda o: o["fetcher"]["spec"]["selector"]["matchLabels"].update({"app.kubernetes.io/version": "0.1.0"}), "selector has the version"),
                (put(inside("fetcher", "spec"), "strategy", {}), "one pod at a time"),
                (put(box("fetcher"), "image", "orbweaver:latest"), "no fixed tag"),
                (put(box("fetcher"), "image", "orbweaver-fetcher:0.1.0"), "not orbweaver:0.1.0"),
                (put(box("fetcher"), "resources", {"requests": {"cpu": "1", "memory": "1Gi"}}), "limit of memory"),
                (put(box("fetcher"), "livenessProbe", {"httpGet": {"path": "/readyz", "port": "http"}}), "livenessProbe asks for /readyz"),
                (put(box("fetcher"), "readinessProbe", {}), "readinessProbe asks for None"),
                (put(box("fetcher"), "ports", [{"name": "http", "containerPort": 80}]), "port http is 80"),
                (variable("fetcher", "ORBWEAVER_HTTP__LISTEN", "0.0.0.0:80"), "port 80"),
                (variable("fetcher", "ORBWEAVER_HTTP__ADDRESS", "x"), "http.address, which there is not"),
                (variable("fetcher", "PATH", "/"), "no variable of ours"),
                (variable("fetcher", "ORBWEAVER_RUNTIME__DRAIN_BUDGET", "1m"), "need 70"),
                (put(box("frontier"), "volumeMounts", []), "not on a volume of its own"),
                (variable("frontier", "ORBWEAVER_KAFKA__INSTANCE_ID", "one"), "not the name of the pod"),
                (put(state, "podManagementPolicy", "OrderedReady"), "not Parallel"),
                (lambda o: state(o)["volumeClaimTemplates"][0]["metadata"].update(labels={"app.kubernetes.io/version": "0.1.0"}), "volume claim"),
                (lambda o: o["frontier"].update(kind="Deployment") or o["frontier"]["spec"].update(strategy=o["fetcher"]["spec"]["strategy"]), "no StatefulSet"),
                (lambda o: o.pop("fetcher budget") and None, "0 objects of kind PodDisruptionBudget"),
                (put(inside("fetcher service", "spec"), "clusterIP", None), "not headless"),
                (put(inside("fetcher service", "spec"), "selector", {"app": "x"}), "0 objects of kind Service"),
            ],
        )

    def test_a_profile_that_demands_credentials_encrypts_both_servers(self):
        tls, protocol = "ORBWEAVER_CQL__TLS", "ORBWEAVER_KAFKA__PROPERTIES__SECURITY__PROTOCOL"

        def pod(objects):
            return objects["fetcher"]["spec"]["template"]["spec"]

        def variable(key, value):
            return lambda objects: pod(objects)["containers"][0]["env"].append({"name": key, "value": value})

        secured = cluster()
        box = pod(secured)["containers"][0]
        box["envFrom"].append({"secretRef": {"name": "credentials", "optional": False}})
        box["volumeMounts"] = [{"name": "cql-ca", "mountPath": "/ca"}]
        pod(secured)["volumes"] = [{"name": "cql-ca", "configMap": {"name": "cql-ca"}}]
        mechanism = "ORBWEAVER_KAFKA__PROPERTIES__SASL__MECHANISM"
        for key, value in ((protocol, "SASL_SSL"), (mechanism, "PLAIN"), (tls, "true"), ("ORBWEAVER_CQL__TLS_CA", "/ca/ca.crt")):
            variable(key, value)(secured)
        self.each(
            secured,
            lambda objects: kubernetes.check("o", list(objects.values()), FACTS),
            [
                (variable(tls, "false"), f"demands credentials, and {tls} does not encrypt"),
                (variable(tls, ""), f"demands credentials, and {tls} does not encrypt"),
                (variable(protocol, "SASL_PLAINTEXT"), f"demands credentials, and {protocol} does not encrypt"),
                (variable(mechanism, ""), "it logs in to the brokers without"),
                (variable("ORBWEAVER_CQL__TLS_CA", "/elsewhere/ca.crt"), "names /elsewhere/ca.crt, where nothing is mounted"),
                (variable("ORBWEAVER_CQL__PASSWORD_FILE", "/elsewhere/password"), "names /elsewhere/password, where nothing is mounted"),
                (lambda o: pod(o).pop("volumes") and None, "names /ca/ca.crt, where nothing is mounted"),
            ],
        )
        single = cluster()
        reference = {"secretKeyRef": {"name": "c", "key": "password"}}
        pod(single)["containers"][0]["env"].append({"name": "ORBWEAVER_CQL__PASSWORD", "valueFrom": reference})
        self.assertEqual(len(kubernetes.check("o", list(single.values()), FACTS)), 2)
        plain = cluster()
        pod(plain)["containers"][0]["envFrom"].append({"secretRef": {"name": "credentials", "optional": True}})
        self.assertEqual(kubernetes.check("o", list(plain.values()), FACTS), [])
        del pod(plain)["containers"][0]["envFrom"][1]["secretRef"]["optional"]
        self.assertEqual(len(kubernetes.check("o", list(plain.values()), FACTS)), 2)

    def test_the_service_of_an_api_is_not_the_one_for_scraping(self):
        objects = cluster()
        labels = {"app.kubernetes.io/component": "fetcher"}
        objects["api"] = {"kind": "Service", "metadata": {"name": "api"}, "spec": {"selector": labels, "ports": [{"name": "api"}]}}
        self.assertEqual(kubernetes.check("o", list(objects.values()), FACTS), [])
        objects["api"]["spec"]["ports"] = [{"name": "http"}]
        self.only(kubernetes.check("o", list(objects.values()), FACTS), "has 2 objects of kind Service")

    def test_what_only_a_cluster_knows_is_made_up_when_settings_are_asked_for(self):
        objects = cluster()
        token = {"name": "ORBWEAVER_URLSTORE__TOKEN_SHA256", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}
        objects["fetcher"]["spec"]["template"]["spec"]["containers"][0]["env"].append(token)
        asked = {name: (binary, env) for name, binary, env in kubernetes.commands(list(objects.values()))}
        self.assertEqual(len(asked["fetcher"][1]["ORBWEAVER_URLSTORE__TOKEN_SHA256"]), 64)
        self.assertEqual(asked["frontier"][0], "orbweaver-frontier")
        self.assertEqual(asked["frontier"][1]["ORBWEAVER_KAFKA__INSTANCE_ID"], "1")
        self.assertEqual(asked["frontier"][1]["ORBWEAVER_KAFKA__BROKERS"], "b:9092")


class Literals(Planted):
    GOOD = {
        "kind": "ConfigMap",
        "data": {"ORBWEAVER_CQL__NODES": "db:9042", "ORBWEAVER_CQL__PASSWORD_FILE": "/run/secrets/cql", "ORBWEAVER_CQL__PASSWORD": ""},
        "env": [
            {"name": "ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
            {"name": "ORBWEAVER_KAFKA__PROPERTIES__SASL__MECHANISM", "value": "SCRAM-SHA-512"},
        ],
        "environment": ["ORBWEAVER_FETCHER__HEADERS__ACCEPT_LANGUAGE=en", "ORBWEAVER_KAFKA__BROKERS=b:9092"],
        "files": {"orbweaver.toml": "[cql]\nnodes = ['db:9042']\n[kafka]\nproperties.'sasl.mechanism' = 'PLAIN'\n"},
        "patches": [{"patch": "- { op: replace, path: /data/ORBWEAVER_CQL__TLS, value: 'true' }\n- { op: remove, path: /x }\n"}],
        "args": ["--set", "cql.tls=true"],
    }

    def test_a_literal_secret_is_found_in_every_form_and_not_repeated(self):
        def put(part, key, value):
            return lambda document: document[part].__setitem__(key, value)

        def add(part, value):
            return lambda document: document[part].append(value)

        def found(document):
            findings = literals.check_documents("m", [document], FACTS)
            self.assertFalse([str(finding) for finding in findings if "hunter2" in str(finding)])
            return findings

        cql, sasl = "ORBWEAVER_CQL__PASSWORD", "ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD"
        header = "ORBWEAVER_FETCHER__HEADERS__AUTHORIZATION"
        patch = f"- op: add\n  path: /spec/env/-\n  value: {{ name: {cql}, value: hunter2 }}\n"
        self.each(
            self.GOOD,
            found,
            [
                (put("data", cql, "hunter2"), f"{cql} is a secret"),
                (put("data", cql, 42), f"{cql} is a secret"),
                (put("data", sasl, "${PASSWORD:-hunter2}"), f"{sasl} is a secret"),
                (put("data", "ORBWEAVER_KAFKA__PROPERTIES__SSL__KEY__PEM", "hunter2"), "SSL__KEY__PEM is a secret"),
                (put("data", header, "Bearer hunter2"), f"{header} is a secret"),
                (put("data", f"{cql}_FILE", "hunter2"), f"{cql}_FILE is not the absolute path"),
                (put("data", "client.properties", "security.protocol=SSL\nsasl.password=hunter2\n"), "sasl.password is a secret"),
                (add("env", {"name": cql, "value": "hunter2"}), f"{cql} is a secret"),
                (add("env", {"name": cql, "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}), f"{cql} is a secret, and does not come"),
                (add("environment", f"{cql}=hunter2"), f"{cql} is a secret"),
                (add("args", "cql.password=hunter2"), "cql.password is a secret"),
                (add("args", "-Xsasl.password=hunter2"), "sasl.password is a secret"),
                (put("files", "orbweaver.toml", "[cql]\npassword = 'hunter2'\n"), "cql.password is a secret"),
                (put("files", "orbweaver.toml", "[kafka.properties]\n'sasl.password' = 'hunter2'\n"), "kafka.properties.sasl.password is a secret"),
                (add("patches", {"patch": patch}), f"{cql} is a secret"),
                (add("patches", {"patch": f"- {{ op: replace, path: /data/{cql}, value: hunter2 }}\n- {{ op: remove, path: /x }}\n"}), f"{cql} is a secret"),
                (lambda d: {"kind": "Secret", "stringData": {"password": "hunter2"}}, "a Secret has its values"),
                (lambda d: {"secretGenerator": [{"name": "c", "literals": ["password=hunter2"]}]}, "secretGenerator"),
            ],
        )

    def test_a_literal_is_found_in_each_kind_of_file(self):
        variable = "ORBWEAVER_CQL__PASSWORD"
        files = {
            "docker-compose.yml": f"services:\n  fetcher:\n    environment: {{ {variable}: hunter2 }}\n",
            "charts/orbweaver/profiles/prod.yaml": "settings:\n  cql.password: hunter2\n",
            "k8s/credentials.env": f"{variable}=hunter2\n",
            "docs/deployment.md": f"Set `{variable}=x`.\n\n```toml\n[cql]\npassword = 'hunter2'\n```\n",
        }
        for name, content in files.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
                self.only(literals.check(Path(folder), FACTS), f"{name}: ")
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(Unreadable):
            literals.check(Path(folder), FACTS)


class Monitoring(Planted):
    CONFIG = {
        "scrape_configs": [
            {"dns_sd_configs": [{"names": ["frontier"], "port": 9462}]},
            {"static_configs": [{"targets": ["fetcher:9464", "127.0.0.1:9090"]}]},
        ]
    }

    def test_every_fault_in_the_scrape_configuration_is_found(self):
        self.each(
            self.CONFIG,
            lambda config: monitoring.scrape(config, COMPOSE, FACTS),
            [
                (lambda c: c["scrape_configs"].pop() and None, "does not scrape fetcher:9464"),
                (lambda c: c["scrape_configs"][1].update(metrics_path="/stats"), "asks for /stats"),
                (lambda c: c["scrape_configs"][0]["dns_sd_configs"][0]["names"].append("urlstore"), "has no urlstore"),
            ],
        )

    def test_a_metric_that_no_code_has_is_found_wherever_it_is_asked_for(self):
        good = {"panels": [{"targets": [{"expr": "sum(rate(orbweaver_fetcher_request_seconds_bucket[5m])) / job:orbweaver_x"}]}]}
        self.assertEqual(monitoring.metrics("d", good, FACTS), [])
        bad = {"groups": [{"rules": [{"expr": "orbweaver_stage_lag_records > 0"}, {"expr": "orbweaver_stage_lags > 0"}]}]}
        self.only(monitoring.metrics("r", bad, FACTS), "asks for orbweaver_stage_lags")


class Texts(Planted):
    def test_what_a_text_names_exists(self):
        good = "Set ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD, `state.dir`; crawl.seeds; k8s/prod.yaml; kafka.kafka.svc"
        self.assertEqual(texts.check_text("t", good, FACTS), [])
        self.only(texts.check_text("t", "ORBWEAVER_KAFKA__BROKER", FACTS), "kafka.broker")
        self.only(texts.check_text("t", "longer than `runtime.shutdown`", FACTS), "runtime.shutdown")
        self.only(texts.check_text("t", "the index over crawl.seed", FACTS), "crawl.seed")
        self.only(texts.check_text("t", "`kafka.protocol`", FACTS), "kafka.protocol")
        self.assertEqual(texts.check_text("t", "`kafka.protocol`", FACTS, frozenset({"kafka.protocol"})), [])


class Settings(Planted):
    def test_a_program_that_refuses_its_variables_is_found_with_what_it_said(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / "orbweaver-fetcher"
            binary.write_text('#!/bin/sh\n[ "$1" = --check-config ] && [ "$GOOD" = 1 ] || { echo "x is not good" >&2; exit 78; }\n')
            binary.chmod(0o755)
            asked = [("good", "orbweaver-fetcher", {"GOOD": "1"}), ("bad", "orbweaver-fetcher", {}), ("other", "orbweaver", {})]
            self.only(settings(Path(folder), asked, {"orbweaver-fetcher"}), "bad: orbweaver-fetcher --check-config ends with 78: x is not good")


if __name__ == "__main__":
    unittest.main()
