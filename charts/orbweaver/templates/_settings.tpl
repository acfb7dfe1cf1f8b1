{{/* Variable of a key of the configuration; takes the key. */}}
{{- define "orbweaver.variable" -}}
ORBWEAVER_{{ . | replace "." "__" | upper }}
{{- end }}

{{/* Variables of settings by key, as lines of YAML; takes the settings. Numbers come as floats from YAML. */}}
{{- define "orbweaver.variables" -}}
{{- range $key, $value := . }}
{{ include "orbweaver.variable" $key }}: {{ (kindIs "float64" $value | ternary (printf "%.0f" $value) $value) | toString | quote }}
{{- end }}
{{- end }}

{{/* Settings of the connection to the brokers. */}}
{{- define "orbweaver.kafka" -}}
{{- with .Values.kafka -}}
{{- $settings := dict "kafka.brokers" .brokers }}
{{- if ne .protocol "PLAINTEXT" }}
{{- $_ := set $settings "kafka.properties.security.protocol" .protocol }}
{{- end }}
{{- if eq .protocol "SASL_SSL" }}
{{- $_ := set $settings "kafka.properties.sasl.mechanism" .mechanism }}
{{- end }}
{{- if or .ca.configMap .ca.secret }}
{{- $_ := set $settings "kafka.properties.ssl.ca.location" (printf "/etc/orbweaver/kafka-ca/%s" .ca.key) }}
{{- end }}
{{- if .client.secret }}
{{- $_ := set $settings "kafka.properties.ssl.certificate.location" (printf "/etc/orbweaver/kafka-client/%s" .client.certificateKey) }}
{{- $_ := set $settings "kafka.properties.ssl.key.location" (printf "/etc/orbweaver/kafka-client/%s" .client.keyKey) }}
{{- end }}
{{- include "orbweaver.variables" $settings | trim }}
{{- end }}
{{- end }}

{{/* Settings of the connection to the store. */}}
{{- define "orbweaver.cql" -}}
{{- with .Values.cql -}}
{{- $settings := dict "cql.nodes" .nodes "cql.replication_factor" .replicationFactor "cql.consistency" .consistency }}
{{- if .datacenter }}
{{- $_ := set $settings "cql.datacenter" .datacenter }}
{{- end }}
{{- if .tls.enabled }}
{{- $_ := set $settings "cql.tls" "true" }}
{{- if .tls.name }}
{{- $_ := set $settings "cql.tls_name" .tls.name }}
{{- end }}
{{- if or .tls.ca.configMap .tls.ca.secret }}
{{- $_ := set $settings "cql.tls_ca" (printf "/etc/orbweaver/cql-ca/%s" .tls.ca.key) }}
{{- end }}
{{- if .tls.client.secret }}
{{- $_ := set $settings "cql.tls_certificate" (printf "/etc/orbweaver/cql-client/%s" .tls.client.certificateKey) }}
{{- $_ := set $settings "cql.tls_key" (printf "/etc/orbweaver/cql-client/%s" .tls.client.keyKey) }}
{{- end }}
{{- end }}
{{- include "orbweaver.variables" $settings | trim }}
{{- end }}
{{- end }}

{{/* ConfigMaps that a pod takes variables from, and the Secret; takes root and facts. */}}
{{- define "orbweaver.sources" -}}
{{- if .root.Values.settings }}
- configMapRef: { name: orbweaver }
{{- end }}
{{- if .facts.kafka }}
- configMapRef: { name: orbweaver-kafka }
{{- end }}
{{- if .facts.cql }}
- configMapRef: { name: orbweaver-cql }
{{- end }}
{{- with .root.Values.credentials.secret }}
- secretRef: { name: {{ . }}, optional: {{ not $.root.Values.credentials.required }} }
{{- end }}
{{- end }}

{{/* Credentials that are referred to one by one; takes root and facts. */}}
{{- define "orbweaver.credentials" -}}
{{- $found := list }}
{{- if .facts.kafka }}
{{- $found = append $found (dict "prefix" "kafka.properties.sasl" "from" .root.Values.kafka.credentials) }}
{{- end }}
{{- if .facts.cql }}
{{- $found = append $found (dict "prefix" "cql" "from" .root.Values.cql.credentials) }}
{{- end }}
{{- range $found }}
{{- if .from.secret }}
- name: {{ include "orbweaver.variable" (printf "%s.username" .prefix) }}
  valueFrom: { secretKeyRef: { name: {{ .from.secret }}, key: {{ .from.usernameKey }} } }
- name: {{ include "orbweaver.variable" (printf "%s.password" .prefix) }}
  valueFrom: { secretKeyRef: { name: {{ .from.secret }}, key: {{ .from.passwordKey }} } }
{{- end }}
{{- end }}
{{- end }}

{{/* Changes with the settings, so that pods are replaced; takes root and facts. */}}
{{- define "orbweaver.checksum" -}}
{{- $parts := list (include "orbweaver.variables" .root.Values.settings) }}
{{- if .facts.kafka }}
{{- $parts = append $parts (include "orbweaver.kafka" .root) }}
{{- end }}
{{- if .facts.cql }}
{{- $parts = append $parts (include "orbweaver.cql" .root) }}
{{- end }}
{{- join "\n" $parts | sha256sum | trunc 16 }}
{{- end }}
