{{/* Names. Namespaced objects have the scheduler's name; the names of cluster-scoped ones also contain the namespace. */}}

{{- define "mooring.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "mooring.scheduler" -}}
{{- default (include "mooring.fullname" .) .Values.scheduler.name -}}
{{- end -}}

{{- define "mooring.controller" -}}
{{- default (printf "%s-controller" (include "mooring.scheduler" .)) .Values.controller.name -}}
{{- end -}}

{{- define "mooring.clusterWide" -}}
{{- printf "%s-%s" .Release.Namespace (include "mooring.scheduler" .) -}}
{{- end -}}

{{- define "mooring.clusterWideController" -}}
{{- printf "%s-%s" .Release.Namespace (include "mooring.controller" .) -}}
{{- end -}}

{{- define "mooring.serviceAccount" -}}
{{- .Values.serviceAccount.create | ternary (include "mooring.scheduler" .) (default "default" .Values.serviceAccount.name) -}}
{{- end -}}

{{- define "mooring.sessionsConfigMap" -}}
{{- default (printf "%s-scheduler-configmap" .Release.Name) .Values.batch.configMapName -}}
{{- end -}}

{{/* Selector labels, which never change. Takes (list . COMPONENT). */}}
{{- define "mooring.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ default $.Chart.Name $.Values.nameOverride }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "mooring.labels" -}}
{{- $ := index . 0 -}}
{{ include "mooring.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- with $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image. Takes (list . GIVEN FOREIGN). An image GIVEN with the name FOREIGN is a Go program and is replaced. */}}
{{- define "mooring.image" -}}
{{- $ := index . 0 -}}
{{- $given := index . 1 -}}
{{- $last := regexReplaceAll "[:@].*$" (base $given) "" -}}
{{- if and $given (ne $last (index . 2)) -}}
{{- $given -}}
{{- else -}}
{{- $image := $.Values.image -}}
{{- $path := $image.registry | empty | ternary $image.repository (printf "%s/%s" $image.registry $image.repository) -}}
{{- $image.digest | empty | ternary (printf "%s:%s" $path (default $.Chart.AppVersion $image.tag)) (printf "%s@%s" $path $image.digest) -}}
{{- end -}}
{{- end -}}
