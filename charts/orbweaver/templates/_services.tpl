{{/*
Facts of the services, which no value changes: port of probes and metrics, the servers that they use, the volume of those that have
one with the variable of its path, and the variable of threads that is set in addition.
*/}}
{{- define "orbweaver.facts" -}}
normalizer-dedup: { port: 9461, kafka: true, cql: false, volume: state, path: state.dir }
frontier: { port: 9462, kafka: true, cql: false, volume: state, path: state.dir }
rate-limiter: { port: 9463, kafka: true, cql: false }
fetcher: { port: 9464, kafka: true, cql: true }
extractor: { port: 9465, kafka: true, cql: true, threads: extractor.threads }
archiver: { port: 9466, kafka: true, cql: true, volume: archive, path: archiver.directory }
urlstore: { port: 9467, kafka: false, cql: true }
{{- end }}

{{/*
Services that are deployed, as JSON: by name, the defaults of `pods`, the values of the service and its facts in one map. Takes the
root.
*/}}
{{- define "orbweaver.services" -}}
{{- $found := dict }}
{{- range $name, $facts := include "orbweaver.facts" . | fromYaml }}
{{- $own := get $.Values.services $name }}
{{- if ne (toString $own.enabled) "false" }}
{{- $_ := set $found $name (mergeOverwrite (deepCopy $.Values.pods) (deepCopy $own) $facts) }}
{{- end }}
{{- end }}
{{- $found | toJson }}
{{- end }}
