{{/* Pods of a service or of the Job. Each template below takes root, name, facts and service (values, with those of `pods`). */}}

{{- define "orbweaver.pod.metadata" -}}
labels:
  {{- include "orbweaver.labels" . | nindent 2 }}
  {{- with .service.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # Replaces the pods when their settings change.
  orbweaver/settings: {{ include "orbweaver.checksum" . | quote }}
  {{- with .service.annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Everything of a pod except its containers. */}}
{{- define "orbweaver.pod.spec" -}}
serviceAccountName: orbweaver
automountServiceAccountToken: false
# Otherwise Kubernetes sets variables such as ORBWEAVER_FETCHER_PORT for each Service.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- with .service.user }}
  runAsUser: {{ int64 . }}
  {{- end }}
  {{- with .service.group }}
  runAsGroup: {{ int64 . }}
  fsGroup: {{ int64 . }}
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .service.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .service.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .service.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .service.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "orbweaver.volumes" . | trim }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all containers have. */}}
{{- define "orbweaver.container" -}}
image: {{ include "orbweaver.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- with include "orbweaver.sources" . | trim }}
envFrom:
  {{- . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .service.resources | nindent 2 }}
{{- with include "orbweaver.mounts" . | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Environment of a service, in addition to the ConfigMaps and the Secret. */}}
{{- define "orbweaver.service.environment" -}}
{{- if .facts.volume }}
{{- if .facts.kafka }}
# Static member of its group: if it returns within the session timeout, it gets the partitions of its volume.
- name: ORBWEAVER_KAFKA__INSTANCE_ID
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
{{- end }}
- { name: {{ include "orbweaver.variable" .facts.path }}, value: /var/lib/orbweaver }
{{- end }}
- { name: ORBWEAVER_HTTP__LISTEN, value: "0.0.0.0:{{ .facts.port }}" }
# As many threads as requested cores (rounded up). There is no CPU limit, so the process would count the cores of the node.
- name: ORBWEAVER_RUNTIME__WORKER_THREADS
  valueFrom: { resourceFieldRef: { resource: requests.cpu } }
{{- with .facts.threads }}
- name: {{ include "orbweaver.variable" . }}
  valueFrom: { resourceFieldRef: { resource: requests.cpu } }
{{- end }}
{{- with .service.ca }}
{{- if or .configMap .secret }}
- { name: ORBWEAVER_FETCHER__TLS_CA, value: "/etc/orbweaver/site-ca/{{ .key }}" }
{{- end }}
{{- end }}
{{- with .service.api }}
{{- if .enabled }}
- { name: ORBWEAVER_URLSTORE__LISTEN, value: "0.0.0.0:{{ int .port }}" }
- name: ORBWEAVER_URLSTORE__TOKEN_SHA256
  valueFrom: { secretKeyRef: { name: {{ .tokenSecret }}, key: {{ .tokenKey }} } }
{{- if .tls.secret }}
- { name: ORBWEAVER_URLSTORE__TLS_CERTIFICATE, value: "/etc/orbweaver/api-tls/{{ .tls.certificateKey }}" }
- { name: ORBWEAVER_URLSTORE__TLS_KEY, value: "/etc/orbweaver/api-tls/{{ .tls.keyKey }}" }
{{- end }}
{{- end }}
{{- end }}
{{- include "orbweaver.credentials" . }}
{{- range $name, $value := include "orbweaver.variables" (.service.settings | default dict) | fromYaml }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- with .service.extraEnvironment }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Template of the pods of a service. */}}
{{- define "orbweaver.service.template" -}}
{{- $environment := include "orbweaver.service.environment" . | trim }}
{{- include "orbweaver.validate.environment" (dict "name" .name "environment" $environment) }}
metadata:
  {{- include "orbweaver.pod.metadata" . | nindent 2 }}
spec:
  {{- include "orbweaver.pod.spec" . | nindent 2 }}
  # Longer than runtime.shutdown_budget (20 s) and runtime.drain_budget (25 s): work in flight is finished and committed,
  # partitions are released, then the process ends.
  terminationGracePeriodSeconds: {{ int .service.terminationGracePeriodSeconds }}
  topologySpreadConstraints:
    {{- range .service.topologySpread.keys }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $.service.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "orbweaver.selector" $.name | nindent 10 }}
    {{- end }}
  containers:
    - name: {{ .name }}
      command: [/usr/local/bin/orbweaver-{{ .name }}]
      {{- include "orbweaver.container" . | nindent 6 }}
      env:
        {{- $environment | nindent 8 }}
      ports:
        - { name: http, containerPort: {{ .facts.port }}, protocol: TCP }
        {{- with .service.api }}
        {{- if .enabled }}
        - { name: api, containerPort: {{ int .port }}, protocol: TCP }
        {{- end }}
        {{- end }}
      # A process that waits for Kafka at its start is alive; it exits by itself after kafka.connect_patience (5 min).
      startupProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 72
      # Liveness means that the process answers, not that Kafka does: a restart does not repair brokers.
      livenessProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      # Readiness is false while Kafka or the store is unavailable, and while an index is restored. These pods receive no
      # traffic; readiness only delays a rolling update until the successor has its partitions open.
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
{{- end }}
