{{- define "agentic.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "agentic.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agentic.labels" -}}
{{ include "agentic.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "agentic.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "agentic.secret" -}}
{{- .Values.secrets.existingSecret | default (include "agentic.name" .) -}}
{{- end }}

{{- /* The settings: what the chart knows by itself, and the values over it. */ -}}
{{- define "agentic.settings" -}}
{{- $known := dict }}
{{- if .Values.ingress.enabled }}
{{- $origins := list (printf "https://%s" .Values.ingress.host) }}
{{- $known = dict "server" (dict "allowed_hosts" (list .Values.ingress.host) "allowed_origins" $origins) }}
{{- end }}
{{- if .Values.catalog }}
{{- $_ := set $known "catalog" "config/agents_catalog.yaml" }}
{{- end }}
{{- mergeOverwrite $known (deepCopy .Values.settings) | toYaml }}
{{- end }}
