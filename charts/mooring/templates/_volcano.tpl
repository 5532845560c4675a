{{/* Volcano's values (`basic` and `custom`), written over the chart's own. Every template calls this first; later calls find nothing to do. */}}
{{- define "mooring.volcanoValues" -}}
{{- $basic := .Values.basic | default dict -}}
{{- $custom := .Values.custom | default dict -}}
{{- if and (or $basic $custom) (not (hasKey .Values "volcano")) -}}
{{- $_ := set .Values "volcano" true -}}
{{- $election := $custom.leader_elect_enable | default false -}}
{{- range $component := list "scheduler" "controller" -}}
{{- $own := index $.Values $component -}}
{{- $_ := set $own "leaderElect" $election -}}
{{- range $theirs, $ours := dict "replicas" "replicaCount" "resources" "resources" "podLabels" "podLabels" "labels" "labels" "log_level" "verbosity" -}}
{{- $value := index $custom (printf "%s_%s" $component $theirs) -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $own $ours $value -}}{{- end -}}
{{- end -}}
{{- range $theirs, $ours := dict "affinity" "affinity" "tolerations" "tolerations" "ns" "nodeSelector" -}}
{{- with (index $custom (printf "%s_%s" $component $theirs)) | default (index $custom (printf "default_%s" $theirs)) -}}
{{- $_ := set $own $ours . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $custom.scheduler_enable) "false" -}}{{- $_ := set .Values.scheduler "replicaCount" 0 -}}{{- end -}}
{{- $_ := set .Values.batch "enabled" true -}}
{{- with $custom.scheduler_config_override -}}{{- $_ := set $.Values.batch "conf" . -}}{{- end -}}
{{- with $custom.scheduler_name -}}{{- $_ := set $.Values.batch "schedulerNames" (list .) -}}{{- end -}}
{{- with $custom.scheduler_schedule_period -}}{{- $_ := set $.Values.batch "schedulePeriod" . -}}{{- end -}}
{{- range $name := list "scheduler_feature_gates" "admission_feature_gates" -}}
{{- if regexMatch "SchedulingGatesQueueAdmission=([tT]|1)" (nospace (toString (index $custom $name))) -}}
{{- $_ := set $.Values.batch "queueGates" true -}}
{{- end -}}
{{- end -}}
{{- with $custom.scheduler_feature_gates -}}{{- $_ := set $.Values.scheduler "extraArgs" (append $.Values.scheduler.extraArgs (printf "--feature-gates=%s" .)) -}}{{- end -}}
{{- $client := dict -}}
{{- with $custom.scheduler_kube_api_qps -}}{{- $_ := set $client "qps" . -}}{{- end -}}
{{- with $custom.scheduler_kube_api_burst -}}{{- $_ := set $client "burst" . -}}{{- end -}}
{{- with $client -}}{{- $_ := set $.Values "configExtra" (merge (deepCopy $.Values.configExtra) (dict "clientConnection" .)) -}}{{- end -}}
{{- if not (kindIs "invalid" $custom.controller_enable) -}}{{- $_ := set .Values.controller "enabled" $custom.controller_enable -}}{{- end -}}
{{- if not (kindIs "invalid" $custom.admission_enable) -}}{{- $_ := set .Values.admission "enabled" $custom.admission_enable -}}{{- end -}}
{{- with $custom.enabled_admissions -}}{{- $_ := set $.Values.admission "paths" (splitList "," (nospace .)) -}}{{- end -}}
{{- with $custom.webhooks_namespace_selector_expressions -}}{{- $_ := set $.Values.admission "namespaceSelectorExpressions" . -}}{{- end -}}
{{- with $custom.controller_config_override -}}{{- $_ := set $.Values.controller "conf" . -}}{{- end -}}
{{- $arguments := .Values.controller.extraArgs -}}
{{- with $custom.controller_kube_api_qps -}}{{- $arguments = append $arguments (printf "--kube-api-qps=%v" .) -}}{{- end -}}
{{- with $custom.controller_kube_api_burst -}}{{- $arguments = append $arguments (printf "--kube-api-burst=%v" .) -}}{{- end -}}
{{- $_ := set .Values.controller "extraArgs" $arguments -}}
{{- with $custom.common_labels -}}{{- $_ := set $.Values "commonLabels" (merge (deepCopy .) $.Values.commonLabels) -}}{{- end -}}
{{- with $custom.scheduler_sc | default $custom.default_sc -}}{{- $_ := set $.Values "podSecurityContext" (merge (deepCopy .) $.Values.podSecurityContext) -}}{{- end -}}
{{- with $basic.image_pull_policy -}}{{- $_ := set $.Values.image "pullPolicy" . -}}{{- end -}}
{{- with $basic.image_pull_secret -}}{{- $_ := set $.Values "imagePullSecrets" (append $.Values.imagePullSecrets (dict "name" .)) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Volcano's values ask for and Mooring does not have, as a list of sentences. */}}
{{- define "mooring.volcanoMissing" -}}
{{- $custom := .Values.custom | default dict -}}
{{- $found := list -}}
{{- if $custom.agent_scheduler_enable -}}{{- $found = append $found "custom.agent_scheduler_enable: there is no separate scheduler for agents; the scheduler's profiles schedule single pods." -}}{{- end -}}
{{- if $custom.colocation_enable -}}{{- $found = append $found "custom.colocation_enable: the node agent is not part of Mooring." -}}{{- end -}}
{{- if $custom.metrics_enable -}}{{- $found = append $found "custom.metrics_enable: the chart does not install Prometheus or Grafana; see serviceMonitor, prometheusRule and dashboard." -}}{{- end -}}
{{- if eq (toString $custom.hypernode_controller_mode) "standalone" -}}{{- $found = append $found "custom.hypernode_controller_mode: the controller of HyperNodes runs with the other controllers, not as a Deployment of its own." -}}{{- end -}}
{{- toYaml $found -}}
{{- end -}}
