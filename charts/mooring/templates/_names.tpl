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

{{/* The job label of metrics: that of every release, so that rules and dashboards find them. */}}
{{- define "mooring.job" -}}
{{- default .Chart.Name .Values.nameOverride -}}
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
{{- $image.digest | empty | ternary (printf "%s:%s" $path (default (printf "v%s" $.Chart.AppVersion) $image.tag)) (printf "%s@%s" $path $image.digest) -}}
{{- end -}}
{{- end -}}

{{/* Whether the image is one that the chart only assumes: no registry, tag or digest was given. */}}
{{- define "mooring.assumesImage" -}}
{{- $image := .Values.image -}}
{{- $given := or $image.registry $image.tag $image.digest (ne $image.repository "mooring") -}}
{{- $own := and .Values.scheduler.image (eq (include "mooring.image" (list . .Values.scheduler.image "kube-scheduler")) .Values.scheduler.image) -}}
{{- not (or $given $own) -}}
{{- end -}}

{{/* A command as a list. Takes (list GIVEN FOREIGN OURS). GIVEN is a list or a string; FOREIGN, a Go program, means OURS. */}}
{{- define "mooring.command" -}}
{{- $given := index . 0 -}}
{{- if kindIs "string" $given -}}{{- $given = $given | empty | ternary list (list $given) -}}{{- end -}}
{{- toYaml (or (empty $given) (eq (first $given) (index . 1)) | ternary (index . 2) $given) -}}
{{- end -}}
