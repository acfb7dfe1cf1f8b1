{{/* Refuses values that the schema cannot refuse, since they depend on each other. */}}
{{- define "orbweaver.validate" -}}
{{- with .Values }}
{{- if not .kafka.brokers }}
{{- fail "kafka.brokers is not set: give the brokers as HOST:PORT,HOST:PORT" }}
{{- end }}
{{- if not .cql.nodes }}
{{- fail "cql.nodes is not set: give the nodes of the store as HOST:PORT,HOST:PORT" }}
{{- end }}
{{- if and .kafka.credentials.secret (ne .kafka.protocol "SASL_SSL") }}
{{- fail (printf "kafka.credentials.secret is set, but kafka.protocol is %s: credentials are sent with SASL_SSL only" .kafka.protocol) }}
{{- end }}
{{- if and (eq .kafka.protocol "SASL_SSL") (not .kafka.credentials.secret) (not .credentials.secret) }}
{{- fail "kafka.protocol is SASL_SSL: name a Secret with the credentials in kafka.credentials.secret or credentials.secret" }}
{{- end }}
{{- if and (eq .kafka.protocol "PLAINTEXT") (or .kafka.ca.configMap .kafka.ca.secret .kafka.client.secret) }}
{{- fail "kafka.ca or kafka.client is set, but kafka.protocol is PLAINTEXT: set it to SSL or SASL_SSL" }}
{{- end }}
{{- if and .cql.credentials.secret (not .cql.tls.enabled) }}
{{- fail "cql.credentials.secret is set, but cql.tls.enabled is false: credentials are sent with TLS only" }}
{{- end }}
{{- if and .credentials.required (not .credentials.secret) }}
{{- fail "credentials.required is true, but credentials.secret is empty" }}
{{- end }}
{{- if and .credentials.required (or (eq .kafka.protocol "PLAINTEXT") (not .cql.tls.enabled)) }}
{{- fail "credentials.required is true: set kafka.protocol to SSL or SASL_SSL, and cql.tls.enabled, so that credentials are sent with TLS only" }}
{{- end }}
{{- include "orbweaver.validate.settings" (dict "path" "settings" "settings" .settings) }}
{{- range $name, $service := .services }}
{{- include "orbweaver.validate.settings" (dict "path" (printf "services.%s.settings" $name) "settings" ($service.settings | default dict)) }}
{{- end }}
{{- range $path, $from := dict "kafka.ca" .kafka.ca "cql.tls.ca" .cql.tls.ca "services.fetcher.ca" .services.fetcher.ca }}
{{- if and $from.configMap $from.secret }}
{{- fail (printf "%s has both configMap and secret: set one of them" $path) }}
{{- end }}
{{- end }}
{{- with .services.urlstore.api }}
{{- if and .enabled (not .tokenSecret) }}
{{- fail "services.urlstore.api.enabled is true: name a Secret with the SHA-256 of the token in services.urlstore.api.tokenSecret" }}
{{- end }}
{{- end }}
{{- with .services.extractor.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail "services.extractor.autoscaling: minReplicas is greater than maxReplicas" }}
{{- end }}
{{- end }}
{{- if .topics.enabled }}
{{- range $name, $service := .services }}
{{- if and (ne $name "urlstore") (gt (int $service.replicas) (int $.Values.topics.partitions)) }}
{{- fail (printf "services.%s.replicas is greater than topics.partitions (%d): instances without a partition are idle" $name (int $.Values.topics.partitions)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Settings below a key with a star: none that the chart sets, and no secret. Takes path and settings. */}}
{{- define "orbweaver.validate.settings" -}}
{{- $own := dict "security.protocol" "kafka.protocol" "sasl.mechanism" "kafka.mechanism" "ssl.ca.location" "kafka.ca" "ssl.certificate.location" "kafka.client" "ssl.key.location" "kafka.client" "sasl.username" "kafka.credentials" }}
{{- range $key, $_ := .settings }}
{{- with get $own (trimPrefix "kafka.properties." $key | lower) }}
{{- fail (printf "%s: %s is set by %s" $.path $key .) }}
{{- end }}
{{- if or (hasPrefix "kafka.properties." $key) (hasPrefix "fetcher.headers." $key) }}
{{- range include "orbweaver.secrets" $ | fromJsonArray }}
{{- if contains . (lower $key) }}
{{- fail (printf "%s: %s is a secret: give it as a variable of the Secret in credentials.secret" $.path $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The environment of a service has each variable once, and no secret as a value. Takes name and environment. */}}
{{- define "orbweaver.validate.environment" -}}
{{- $seen := list }}
{{- range .environment | fromYamlArray }}
{{- $variable := .name }}
{{- if has $variable $seen }}
{{- fail (printf "%s: the variable %s is set twice: remove it from extraEnvironment" $.name $variable) }}
{{- end }}
{{- $seen = append $seen $variable }}
{{- if and (hasPrefix "ORBWEAVER_" $variable) (not (hasSuffix "_FILE" $variable)) .value }}
{{- range include "orbweaver.secrets" $ | fromJsonArray }}
{{- if contains (. | replace "-" "_" | upper) $variable }}
{{- fail (printf "%s: the variable %s is a secret: take it from a Secret with valueFrom.secretKeyRef" $.name $variable) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Parts of names that mark secrets, as in the programs, as JSON. */}}
{{- define "orbweaver.secrets" -}}
{{- $secrets := list "password" "passphrase" "secret" "token" "credential" "jaas" "oauth" "pem" "authorization" "cookie" "api-key" "apikey" }}
{{- $secrets | toJson }}
{{- end }}
