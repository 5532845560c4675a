{{/* Common parts of the pods of the scheduler and the controller. Takes (list . VALUES COMPONENT). */}}
{{- define "mooring.podPlacement" -}}
{{- $ := index . 0 -}}
{{- $values := index . 1 -}}
{{- $component := index . 2 -}}
{{- with $.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "nodeSelector" "affinity" "tolerations" }}
{{- with index $values $field }}
{{ $field }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $.Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
{{- else if gt (int $values.replicaCount) 1 }}
topologySpreadConstraints:
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "mooring.selector" (list $ $component) | nindent 8 }}
{{- end }}
{{- end }}
{{- with $values.initContainers }}
initContainers: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The volume for caches. The root file system is read-only. */}}
{{- define "mooring.tmpVolume" -}}
name: tmp
emptyDir: {{- toYaml (dict "sizeLimit" .Values.tmpSizeLimit) | nindent 2 }}
{{- end -}}

{{/* A probe. Takes (list VALUES PATH SCHEME). */}}
{{- define "mooring.probe" -}}
{{- $get := dict "path" (index . 1) "port" "https" "scheme" "HTTPS" -}}
{{- toYaml (merge (deepCopy (index . 0)) (dict "httpGet" $get "timeoutSeconds" 5)) -}}
{{- end -}}

{{- define "mooring.probes" -}}
{{- $probes := .Values.probes -}}
{{- with $probes.liveness }}
livenessProbe: {{- include "mooring.probe" (list . "/livez") | nindent 2 }}
{{- end }}
{{- with $probes.readiness }}
readinessProbe: {{- include "mooring.probe" (list . "/readyz") | nindent 2 }}
{{- end }}
{{- with $probes.startup }}
startupProbe: {{- include "mooring.probe" (list . "/livez") | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes of plugin folders by the name of the folder in /plugins. */}}
{{- define "mooring.pluginFolders" -}}
{{- $folders := dict "inline" (dict "volume" (dict "configMap" (dict "name" (printf "%s-plugins" (include "mooring.scheduler" .))))) -}}
{{- range $number, $each := .Values.pluginSources.configMaps -}}
{{- $_ := set $folders (printf "config-map-%d" $number) (dict "volume" (dict "configMap" $each)) -}}
{{- end -}}
{{- range $number, $each := .Values.pluginSources.persistentVolumeClaims -}}
{{- $claim := merge (omit $each "subPath") (dict "readOnly" true) -}}
{{- $_ := set $folders (printf "claim-%d" $number) (dict "volume" (dict "persistentVolumeClaim" $claim) "subPath" $each.subPath) -}}
{{- end -}}
{{- range $number, $each := .Values.pluginSources.images -}}
{{- $_ := set $folders (printf "image-%d" $number) (dict "volume" (dict "image" (omit $each "subPath")) "subPath" $each.subPath) -}}
{{- end -}}
{{- toYaml $folders -}}
{{- end -}}
