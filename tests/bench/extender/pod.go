package main

type PVCSource struct {
	ClaimName string `json:"claimName"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}
type KeyToPath struct {
	Key  string `json:"key"`
	Path string `json:"path"`
}
type ConfigMapSource struct {
	Name        string      `json:"name,omitempty"`
	Items       []KeyToPath `json:"items,omitempty"`
	DefaultMode *int32      `json:"defaultMode,omitempty"`
}
type SATSource struct {
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	Path              string `json:"path"`
}
type Projection struct {
	ConfigMap           *ConfigMapSource `json:"configMap,omitempty"`
	ServiceAccountToken *SATSource       `json:"serviceAccountToken,omitempty"`
}
type ProjectedSource struct {
	Sources     []Projection `json:"sources"`
	DefaultMode *int32       `json:"defaultMode,omitempty"`
}
type Volume struct {
	Name      string           `json:"name"`
	PVC       *PVCSource       `json:"persistentVolumeClaim,omitempty"`
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
	Projected *ProjectedSource `json:"projected,omitempty"`
}
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}
type ContainerPort struct {
	Name          string `json:"name,omitempty"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol,omitempty"`
}
type Resources struct {
	Limits   ResourceList `json:"limits,omitempty"`
	Requests ResourceList `json:"requests,omitempty"`
}
type VolumeMount struct {
	Name      string `json:"name"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	MountPath string `json:"mountPath"`
}
type Container struct {
	Name            string          `json:"name"`
	Image           string          `json:"image,omitempty"`
	Command         []string        `json:"command,omitempty"`
	Args            []string        `json:"args,omitempty"`
	Ports           []ContainerPort `json:"ports,omitempty"`
	Env             []EnvVar        `json:"env,omitempty"`
	Resources       Resources       `json:"resources,omitempty"`
	VolumeMounts    []VolumeMount   `json:"volumeMounts,omitempty"`
	TermPath        string          `json:"terminationMessagePath,omitempty"`
	TermPolicy      string          `json:"terminationMessagePolicy,omitempty"`
	ImagePullPolicy string          `json:"imagePullPolicy,omitempty"`
}
type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}
type PodAffinityTerm struct {
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	TopologyKey   string         `json:"topologyKey"`
}
type PodAntiAffinity struct {
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}
type Affinity struct {
	PodAntiAffinity *PodAntiAffinity `json:"podAntiAffinity,omitempty"`
}
type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}
type PodSecurityContext struct {
	FSGroup *int64 `json:"fsGroup,omitempty"`
}
type PodSpec struct {
	Volumes            []Volume            `json:"volumes,omitempty"`
	InitContainers     []Container         `json:"initContainers,omitempty"`
	Containers         []Container         `json:"containers"`
	RestartPolicy      string              `json:"restartPolicy,omitempty"`
	TermGrace          *int64              `json:"terminationGracePeriodSeconds,omitempty"`
	DNSPolicy          string              `json:"dnsPolicy,omitempty"`
	NodeSelector       map[string]string   `json:"nodeSelector,omitempty"`
	ServiceAccountName string              `json:"serviceAccountName,omitempty"`
	ServiceAccount     string              `json:"serviceAccount,omitempty"`
	NodeName           string              `json:"nodeName,omitempty"`
	SecurityContext    *PodSecurityContext `json:"securityContext,omitempty"`
	Affinity           *Affinity           `json:"affinity,omitempty"`
	SchedulerName      string              `json:"schedulerName,omitempty"`
	Tolerations        []Toleration        `json:"tolerations,omitempty"`
	Priority           *int32              `json:"priority,omitempty"`
	EnableServiceLinks *bool               `json:"enableServiceLinks,omitempty"`
	PreemptionPolicy   *string             `json:"preemptionPolicy,omitempty"`
}
type PodStatus struct {
	Phase    string `json:"phase,omitempty"`
	QOSClass string `json:"qosClass,omitempty"`
}
type Pod struct {
	TypeMeta   `json:",inline"`
	ObjectMeta `json:"metadata,omitempty"`
	Spec       PodSpec   `json:"spec,omitempty"`
	Status     PodStatus `json:"status,omitempty"`
}
