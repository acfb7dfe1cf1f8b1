"""Whether the files of the deployment say what the code says: variables, ports, programs, paths, metrics, topics, budgets.

`facts` reads the code; `docker`, `compose`, `kubernetes`, `monitoring` and `texts` each read one kind of file and return findings;
`literals` looks for secrets in all of them.
Nothing is run and nothing is looked up elsewhere, so that it works without Docker, a cluster or a network.
"""
