{{- define "freshet.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name, or with the chart's behind it: names of services have at most 63 letters. */ -}}
{{- define "freshet.fullname" -}}
{{- $name := include "freshet.name" . }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "freshet.selector" -}}
app.kubernetes.io/name: {{ include "freshet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "freshet.labels" -}}
{{ include "freshet.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* freshet.toml. */ -}}
{{- define "freshet.config" -}}
memory = {{ .Values.memory | quote }}
drain = {{ .Values.drain | quote }}
{{- if .Values.policy }}
vcl = "/etc/freshet/policy.vcl"
{{- end }}

[[listen]]
address = ":8080"
{{- if .Values.tls.enabled }}

[[listen]]
address = ":8443"
tls = true
http3 = {{ .Values.tls.http3 }}
{{- if .Values.tls.http3 }}
http3_port = {{ .Values.service.https }}
{{- end }}

[[certificate]]
cert = "/etc/freshet-tls/tls.crt"
key = "/etc/freshet-tls/tls.key"
{{- end }}
{{- if not .Values.policy }}
{{- range .Values.origins }}

[[origin]]
url = {{ .url | quote }}
{{- with .name }}
name = {{ . | quote }}
{{- end }}
{{- with .host }}
host = {{ . | quote }}
{{- end }}
{{- with .weight }}
weight = {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.store.enabled }}

[[store]]
path = "/var/cache/freshet/store"
size = {{ .Values.store.size | quote }}
{{- end }}

[admin]
listen = ":6080"
hosts = [{{ include "freshet.fullname" . | quote }}, {{ printf "%s.%s.svc" (include "freshet.fullname" .) .Release.Namespace | quote }}]

[log]
access = "stdout"
{{- with .Values.config }}

{{ . }}
{{- end }}
{{ end }}
