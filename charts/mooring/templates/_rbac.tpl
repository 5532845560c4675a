{{/* A role in a namespace. Takes (list . COMPONENT NAME NAMESPACE RULES). */}}
{{- define "mooring.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ index . 2 }}
  namespace: {{ index . 3 }}
  labels: {{- include "mooring.labels" (list (index . 0) (index . 1)) | nindent 4 }}
rules: {{- toYaml (index . 4) | nindent 2 }}
{{- end -}}

{{/* The binding of the role of the same name. Takes (list . COMPONENT KIND NAME NAMESPACE SUBJECTS). */}}
{{- define "mooring.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ index . 2 }}
metadata:
  name: {{ index . 3 }}
  {{- with index . 4 }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "mooring.labels" (list (index . 0) (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 2 | trimSuffix "Binding" }}
  name: {{ index . 3 }}
subjects: {{- toYaml (index . 5) | nindent 2 }}
{{- end -}}

{{/* The rules for holding a lease. Takes (list . NAME). */}}
{{- define "mooring.leaseRules" -}}
{{- $name := index . 1 -}}
{{- $rules := list -}}
{{- range (include "mooring.known" (index . 0) | fromYaml).lease -}}
{{- $rules = append $rules (hasKey . "resourceNames" | ternary (merge (dict "resourceNames" (list $name)) .) .) -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* The rules of session plugins: deviceshare locks nodes and reads reports of MindCluster if it is told to, and reads a ConfigMap. */}}
{{- define "mooring.sessionPluginRules" -}}
{{- $known := include "mooring.known" . | fromYaml -}}
{{- $rules := list -}}
{{- range (.Values.batch.conf | default $known.defaultConf | fromYaml).tiers -}}
{{- range .plugins -}}
{{- if eq (toString .name) "deviceshare" -}}
{{- $arguments := .arguments | default dict -}}
{{- if regexMatch "^(true|\"(1|t|T|TRUE|true|True)\")$" (index $arguments "deviceshare.NodeLockEnable" | toJson) -}}
{{- $rules = concat $rules $known.lockingNodes -}}
{{- end -}}
{{- if regexMatch "^(true|\"(1|t|T|TRUE|true|True)\")$" (index $arguments "deviceshare.AscendMindClusterVNPUEnable" | toJson) -}}
{{- $rules = concat $rules $known.readingReports -}}
{{- end -}}
{{- with $name := index $arguments "deviceshare.KnownGeometriesCMName" -}}
{{- range $known.readingDevices -}}{{- $rules = append $rules (merge (dict "resourceNames" (list $name)) .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}
