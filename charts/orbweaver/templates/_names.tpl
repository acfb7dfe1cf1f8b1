{{/* Labels by which a service is selected; takes its name. They never change: selectors are immutable. */}}
{{- define "orbweaver.selector" -}}
app.kubernetes.io/name: orbweaver-{{ . }}
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Labels of all objects; takes the root. */}}
{{- define "orbweaver.common" -}}
app.kubernetes.io/part-of: orbweaver
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Values.managedBy | default .Release.Service }}
{{- end }}

{{/* Labels of an object of a service; takes root and name. */}}
{{- define "orbweaver.labels" -}}
{{ include "orbweaver.selector" .name }}
{{ include "orbweaver.common" .root }}
{{- end }}

{{/* Labels of an object of no service; takes the root. */}}
{{- define "orbweaver.shared" -}}
app.kubernetes.io/name: orbweaver
{{ include "orbweaver.common" . }}
{{- end }}

{{- define "orbweaver.image" -}}
{{- with .Values.image -}}
{{ with .registry }}{{ . | trimSuffix "/" }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}
