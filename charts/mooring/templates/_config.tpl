{{/* What Mooring itself says about permissions and plugins: made by scripts/chart.py. */}}
{{- define "mooring.known" -}}
{{- .Files.Get "files/known.yaml" -}}
{{- end -}}

{{/* Names of plugins as a list of {name: ...}; a built-in one may be written with a small first letter. */}}
{{- define "mooring.pluginList" -}}
{{- $builtIn := (include "mooring.known" (index . 0) | fromYaml).builtIn -}}
{{- $found := list -}}
{{- range index . 1 -}}
{{- $entry := kindIs "string" . | ternary (dict "name" .) . -}}
{{- if has (title $entry.name) $builtIn -}}
{{- $entry = merge (dict "name" (title $entry.name)) $entry -}}
{{- end -}}
{{- $found = append $found $entry -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* The one profile that the values describe. */}}
{{- define "mooring.profile" -}}
{{- $sets := dict -}}
{{- range $name := list "enabled" "disabled" -}}
{{- with index $.Values.plugins $name -}}
{{- $_ := set $sets $name (include "mooring.pluginList" (list $ .) | fromYamlArray) -}}
{{- end -}}
{{- end -}}
{{- $profile := dict "schedulerName" (include "mooring.scheduler" .) -}}
{{- with $sets -}}{{- $_ := set $profile "plugins" (dict "multiPoint" .) -}}{{- end -}}
{{- with .Values.pluginConfig -}}{{- $_ := set $profile "pluginConfig" . -}}{{- end -}}
{{- toYaml $profile -}}
{{- end -}}

{{/* The KubeSchedulerConfiguration in force, as the file's text. */}}
{{- define "mooring.configuration" -}}
{{- $head := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{- if and .Values.config (kindIs "string" .Values.config) -}}
{{- .Values.config | trimSuffix "\n" -}}
{{- else if .Values.config -}}
{{- toYaml (merge (deepCopy .Values.config) $head) -}}
{{- else -}}
{{- $lease := dict "leaderElect" .Values.scheduler.leaderElect "resourceName" (include "mooring.scheduler" .) "resourceNamespace" .Release.Namespace -}}
{{- $profiles := default (list (include "mooring.profile" . | fromYaml)) .Values.profiles -}}
{{- $made := merge $head (dict "leaderElection" $lease "profiles" $profiles) -}}
{{- toYaml (mergeOverwrite $made (deepCopy .Values.configExtra)) -}}
{{- end -}}
{{- end -}}

{{/* The same as an object: of a text, the document that is the configuration. */}}
{{- define "mooring.configurationObject" -}}
{{- $found := dict -}}
{{- range regexSplit "(?m)^---([ \t].*)?$" (include "mooring.configuration" .) -1 -}}
{{- if regexMatch "(?m)^\"?kind\"?:[ \t]*[\"']?KubeSchedulerConfiguration" . -}}
{{- $found = fromYaml . -}}
{{- end -}}
{{- end -}}
{{- if hasKey $found "Error" -}}{{- fail (printf "config: %s" $found.Error) -}}{{- end -}}
{{- if not $found -}}{{- fail "config: no KubeSchedulerConfiguration in it; write apiVersion and kind" -}}{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* What holds for single plugins, as the second document of the file. */}}
{{- define "mooring.pluginSources" -}}
{{- if contains "kind: PluginSources" (include "mooring.configuration" .) -}}
{{- fail "pluginSettings: config has a PluginSources document already; write the settings there" -}}
{{- end -}}
{{- toYaml (dict "apiVersion" "mooring.dev/v1alpha1" "kind" "PluginSources" "plugins" .Values.pluginSettings) -}}
{{- end -}}

{{/* Leader election as the configuration says, or as it is by default. */}}
{{- define "mooring.election" -}}
{{- $said := (include "mooring.configurationObject" . | fromYaml).leaderElection | default dict -}}
{{- toYaml (merge (deepCopy $said) (dict "resourceName" "kube-scheduler" "resourceNamespace" "kube-system") (hasKey $said "leaderElect" | ternary dict (dict "leaderElect" true))) -}}
{{- end -}}

{{/* The plugins that run in some profile, as far as roles go: those that are enabled, and defaults not disabled. */}}
{{- define "mooring.activePlugins" -}}
{{- $defaults := (include "mooring.known" . | fromYaml).defaultPlugins -}}
{{- $active := list -}}
{{- $config := include "mooring.configurationObject" . | fromYaml -}}
{{- range $profile := $config.profiles | default (list dict) -}}
{{- $disabled := list -}}
{{- range $point, $set := $profile.plugins | default dict -}}
{{- range ($set | default dict).enabled -}}{{- $active = append $active .name -}}{{- end -}}
{{- if and (eq $point "multiPoint") (not (hasSuffix "v1beta2" $config.apiVersion)) -}}
{{- range ($set | default dict).disabled -}}{{- $disabled = append $disabled .name -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $defaults -}}
{{- if not (or (has . $disabled) (has "*" $disabled)) -}}{{- $active = append $active . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml ($active | uniq | sortAlpha) -}}
{{- end -}}

{{/* Whether there is a controller: as the values say, or where something is enabled whose objects it looks after. */}}
{{- define "mooring.hasController" -}}
{{- $wanted := .Values.controller.enabled -}}
{{- if kindIs "invalid" $wanted -}}
{{- $active := include "mooring.activePlugins" . | fromYamlArray -}}
{{- $wanted = or .Values.batch.enabled (has "Coscheduling" $active) (has "CapacityScheduling" $active) -}}
{{- end -}}
{{- $wanted -}}
{{- end -}}

{{/* Changes of this make new pods: all that a running scheduler does not take over by itself. */}}
{{- define "mooring.restartChecksum" -}}
{{- $said := include "mooring.configurationObject" . | fromYaml -}}
{{- if .Values.reload -}}
{{- omit $said "profiles" "percentageOfNodesToScore" "podInitialBackoffSeconds" "podMaxBackoffSeconds" "apiVersion" | toJson | sha256sum -}}
{{- else -}}
{{- list $said .Values.pluginFiles .Values.pluginSettings .Values.batch.conf | toJson | sha256sum -}}
{{- end -}}
{{- end -}}
