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
