"""Planted faults in the objects around the workloads, as in agreement_test.py."""

import unittest

from agreement_test import FACTS, Planted, cluster

from consistency import kubernetes


class Objects(Planted):
    def test_policies_permit_what_a_pod_needs_and_nothing_else(self):
        objects = cluster()
        objects["map"]["data"]["ORBWEAVER_KAFKA__BROKERS"] = "a:9092,b:9093"
        peers = [{"podSelector": {}}]
        ports = [{"port": port} for port in (53, 9092, 9093)]
        for name in ("frontier", "fetcher", "topics"):
            spec = {
                "podSelector": {"matchLabels": {"app.kubernetes.io/component": name}},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": peers, "ports": [{"port": "http"}]}],
                "egress": [{"to": peers, "ports": list(ports)}, {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": [{}]}],
            }
            objects[f"{name} policy"] = {"kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}

        def egress(rule, key, value):
            return lambda o: o["fetcher policy"]["spec"]["egress"][rule].__setitem__(key, value)

        def block(key, value):
            return lambda o: o["fetcher policy"]["spec"]["egress"][1]["to"][0]["ipBlock"].__setitem__(key, value)

        self.each(
            objects,
            lambda objects: kubernetes.check("o", list(objects.values()), FACTS),
            [
                (lambda o: o["fetcher policy"]["spec"].__setitem__("policyTypes", ["Egress"]), "no NetworkPolicy restricts its connections (Ingress)"),
                (egress(0, "ports", [{"port": 53}, {"port": 9092}]), "no NetworkPolicy permits its connections to port 9093"),
                (egress(0, "ports", [{"port": 9092}, {"port": 9093}]), "no NetworkPolicy permits its connections to port 53"),
                (egress(0, "to", []), "to every peer"),
                (egress(1, "ports", []), "on every port"),
                (lambda o: o["fetcher policy"]["spec"]["ingress"][0].pop("from") and None, "from every peer"),
                (lambda o: o["fetcher policy"]["spec"]["ingress"].clear(), "permits connections to its port http"),
                (block("except", ["fc00::/7"]), "fc00::/7 is not within 0.0.0.0/0"),
                (block("cidr", "10.0.0.0/16"), "10.0.0.0/8 is not within 10.0.0.0/16"),
                (block("except", ["0.0.0.0/0"]), "0.0.0.0/0 is not within"),
            ],
        )

    def test_an_autoscaler_owns_the_number_of_instances_of_a_deployment(self):
        objects = cluster()
        target = {"kind": "Deployment", "name": "fetcher"}
        objects["scaler"] = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": {"scaleTargetRef": target}}
        self.each(
            objects,
            lambda objects: kubernetes.check("o", list(objects.values()), FACTS),
            [
                (lambda o: o["fetcher"]["spec"].__setitem__("replicas", 1), "its target sets replicas"),
                (lambda o: o["scaler"]["spec"].__setitem__("scaleTargetRef", {"kind": "StatefulSet", "name": "frontier"}), "no target"),
                (lambda o: o["scaler"]["spec"].__setitem__("scaleTargetRef", {"kind": "Deployment", "name": "x"}), "no target"),
            ],
        )

    def test_a_monitor_selects_every_service_with_its_port_and_sets_the_label(self):
        objects = cluster()
        for name in ("frontier service", "fetcher service"):
            objects[name]["metadata"]["labels"] = {"scrape": "yes"}
            objects[name]["spec"]["ports"] = [{"name": "http"}]
        endpoint = {"port": "http", "honorLabels": True, "relabelings": [{"targetLabel": "service"}]}
        spec = {"selector": {"matchLabels": {"scrape": "yes"}}, "endpoints": [endpoint]}
        objects["monitor"] = {"kind": "ServiceMonitor", "metadata": {"name": "x"}, "spec": spec}

        def put(key, value):
            return lambda o: o["monitor"]["spec"]["endpoints"][0].__setitem__(key, value)

        self.each(
            objects,
            lambda objects: kubernetes.check("o", list(objects.values()), FACTS),
            [
                (lambda o: o["fetcher service"]["metadata"].pop("labels") and None, "selects frontier, not fetcher, frontier"),
                (put("port", "metrics"), "scrapes the port metrics, which not every Service has"),
                (put("honorLabels", False), "does not set the label service"),
                (put("relabelings", []), "does not set the label service"),
            ],
        )


if __name__ == "__main__":
    unittest.main()
