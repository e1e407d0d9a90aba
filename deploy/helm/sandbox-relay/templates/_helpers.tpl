{{- define "relay.name" -}}
{{- if contains "sandbox-relay" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-sandbox-relay" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "relay.selector" -}}
app.kubernetes.io/name: sandbox-relay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "relay.labels" -}}
{{ include "relay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Numbers of values are floats: a large one would be written with an exponent. */}}
{{- define "relay.text" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "relay.toml" -}}
{{- range $table, $values := dict "limits" .Values.limits "max_limits" .Values.maxLimits }}
{{- if $values }}
[{{ $table }}]
{{- range $name, $value := $values }}
{{ $name }} = {{ include "relay.text" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
