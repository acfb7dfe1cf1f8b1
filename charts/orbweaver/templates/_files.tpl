{{/* Certificates that a pod mounts, as JSON: by name of the volume, ConfigMap or Secret. Takes root, facts and service. */}}
{{- define "orbweaver.certificates" -}}
{{- $found := dict }}
{{- if .facts.kafka }}
{{- $_ := set $found "kafka-ca" .root.Values.kafka.ca }}
{{- $_ := set $found "kafka-client" .root.Values.kafka.client }}
{{- end }}
{{- if and .facts.cql .root.Values.cql.tls.enabled }}
{{- $_ := set $found "cql-ca" .root.Values.cql.tls.ca }}
{{- $_ := set $found "cql-client" .root.Values.cql.tls.client }}
{{- end }}
{{- with .service.ca }}
{{- $_ := set $found "site-ca" . }}
{{- end }}
{{- with .service.api }}
{{- if .enabled }}
{{- $_ := set $found "api-tls" .tls }}
{{- end }}
{{- end }}
{{- range $name, $from := $found }}
{{- if not (or (get $from "configMap") $from.secret) }}
{{- $_ := unset $found $name }}
{{- end }}
{{- end }}
{{- $found | toJson }}
{{- end }}

{{- define "orbweaver.volumes" -}}
{{- range $name, $from := include "orbweaver.certificates" . | fromJson }}
{{- if get $from "configMap" }}
- { name: {{ $name }}, configMap: { name: {{ $from.configMap }} } }
{{- else }}
- { name: {{ $name }}, secret: { secretName: {{ $from.secret }}, defaultMode: 0440 } }
{{- end }}
{{- end }}
{{- with .service.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "orbweaver.mounts" -}}
{{- with .facts.volume }}
- { name: {{ . }}, mountPath: /var/lib/orbweaver }
{{- end }}
{{- range $name, $_ := include "orbweaver.certificates" . | fromJson }}
- { name: {{ $name }}, mountPath: /etc/orbweaver/{{ $name }}, readOnly: true }
{{- end }}
{{- with .service.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
