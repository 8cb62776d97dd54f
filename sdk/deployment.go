package sdk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// DeploymentVersion is the newest version of DeploymentSpec that this package
// reads.
const DeploymentVersion = 1

// DeploymentSpec describes a workload that goes on until it is stopped. What is
// unset is fitted to the backend; what is set is honoured or refused before
// anything is changed, never dropped.
type DeploymentSpec struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	// Image is the container image; needed.
	Image string `json:"image"`
	// Command replaces what the image runs: nil leaves it. No shell re-reads it.
	Command Argv `json:"command,omitzero"`
	Env     Env  `json:"env,omitzero"`
	// Secrets maps names to references; values never stand here.
	Secrets map[string]SecretRef `json:"secrets,omitzero"`
	Ports   []Port               `json:"ports,omitzero"`
	// Replicas is how many instances there are to be; nil is the backend's
	// default, 0 none yet.
	Replicas  *int         `json:"replicas,omitzero"`
	Resources Limits       `json:"resources,omitzero"`
	Health    *HealthCheck `json:"health,omitzero"`
	// Config are settings that are kept beside the workload where the backend
	// has a place for them (a ConfigMap, a parameter store), which reach it as
	// variables and which Configurer changes.
	Config map[string]string `json:"config,omitzero"`
	// Options are the kind's own, under its published schema.
	Options json.RawMessage `json:"options,omitzero"`
}

// Limits bound one instance: CPU in thousandths of a core, Memory in bytes;
// zero is unset.
type Limits struct {
	CPU    int64 `json:"cpu,omitzero"`
	Memory int64 `json:"memory,omitzero"`
}

// Protocol is how a port is spoken to.
type Protocol string

// The protocols; unset is TCP.
const (
	ProtocolTCP Protocol = "tcp"
	ProtocolUDP Protocol = "udp"
)

// Port is one that the workload listens on.
type Port struct {
	// Name tells ports apart; may be empty.
	Name string `json:"name,omitzero"`
	// Port is 1 to 65535.
	Port     int      `json:"port"`
	Protocol Protocol `json:"protocol,omitzero"`
}

// HealthCheck says when an instance counts as ready. Exactly one of Command,
// HTTPPath and TCP is set.
type HealthCheck struct {
	// Command succeeds within the instance.
	Command Argv `json:"command,omitzero"`
	// HTTPPath answers 200 to 399 on Port.
	HTTPPath string `json:"http_path,omitzero"`
	// TCP: Port accepts connections.
	TCP  bool `json:"tcp,omitzero"`
	Port int  `json:"port,omitzero"`
	// Interval is the time between checks, Timeout that of one, StartPeriod the
	// time in which failures don't count; zero is the backend's own.
	Interval    time.Duration `json:"interval,omitzero"`
	Timeout     time.Duration `json:"timeout,omitzero"`
	StartPeriod time.Duration `json:"start_period,omitzero"`
	// Failures in a row make an instance unhealthy; zero is the backend's own.
	Failures int `json:"failures,omitzero"`
}

// Encode returns the canonical JSON.
func (s DeploymentSpec) Encode() ([]byte, error) {
	if s.V == 0 {
		s.V = DeploymentVersion
	}
	if len(s.Options) > 0 {
		o, err := CanonicalJSON(s.Options)
		if err != nil {
			return nil, &Error{Code: InvalidArgument, Op: "encode deployment", Field: "options", Err: err}
		}
		s.Options = o
	}
	return EncodeCanonical(s)
}

// DecodeDeployment reads a DeploymentSpec, under DecodeHandle's rules.
func DecodeDeployment(data []byte) (DeploymentSpec, error) {
	var s DeploymentSpec
	if err := decodeCanonical("deployment", data, DeploymentVersion, &s); err != nil {
		return DeploymentSpec{}, err
	}
	return s, nil
}

// MaxReplicas bounds a count of replicas; no backend here takes more for one workload.
const MaxReplicas = 100_000

// ValidateDeployment returns what no backend would take: every problem at once,
// in the order of the fields' names. It reads nothing outside the spec.
func ValidateDeployment(s DeploymentSpec) []Problem {
	v := deploymentCheck{}
	if s.V > DeploymentVersion {
		v.bad("v", fmt.Sprint(s.V), "this program reads deployments up to version %d", DeploymentVersion)
	}
	for field, t := range map[string]string{"name": s.Name, "image": s.Image} {
		if t == "" {
			v.bad(field, "", "is missing")
		}
		v.text(field, t)
	}
	if s.Name != "" && badSegment(s.Name) != "" || strings.Contains(s.Name, "/") {
		v.bad("name", s.Name, "must fit into a target: no slash, no white space")
	}
	v.argv("command", s.Command)
	v.variables(s)
	v.ports(s.Ports)
	if n := s.Replicas; n != nil && (*n < 0 || *n > MaxReplicas) {
		v.bad("replicas", fmt.Sprint(*n), "is 0 to %d", MaxReplicas)
	}
	for field, n := range map[string]int64{"resources.cpu": s.Resources.CPU, "resources.memory": s.Resources.Memory} {
		if n < 0 {
			v.bad(field, fmt.Sprint(n), "is negative")
		}
	}
	if s.Health != nil {
		v.health(*s.Health)
	}
	if len(s.Options) > 0 {
		if _, err := CanonicalJSON(s.Options); err != nil {
			v.bad("options", "", "%v", err)
		}
	}
	slices.SortStableFunc(v.ps, func(a, b Problem) int { return strings.Compare(a.Field+"\x00"+a.Value, b.Field+"\x00"+b.Value) })
	return v.ps
}

// deploymentCheck collects problems.
type deploymentCheck struct{ ps []Problem }

func (v *deploymentCheck) bad(field, value, format string, args ...any) {
	v.ps = append(v.ps, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: InvalidArgument})
}

func (v *deploymentCheck) text(field, s string) {
	v.nul(field, s)
	if !utf8.ValidString(s) {
		v.bad(field, "", "is not UTF-8")
	}
}

func (v *deploymentCheck) nul(field, s string) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		v.bad(field, "", "has a NUL byte at position %d, which no process can take", i)
	}
}

func (v *deploymentCheck) argv(field string, list Argv) {
	for i, a := range list {
		v.nul(fmt.Sprintf("%s[%d]", field, i), a)
	}
	if list != nil && (len(list) == 0 || list[0] == "") {
		v.bad(field, "", "is empty; leave it out for the image's own")
	}
}

// variables are env, secrets and config: one name, one source.
func (v *deploymentCheck) variables(s DeploymentSpec) {
	for k, val := range s.Env {
		if msg := checkEnvName(k); msg != "" {
			v.bad("env", k, "%s", msg)
		}
		v.nul("env."+k, val)
	}
	for k, ref := range s.Secrets {
		if msg := checkSecretName(k); msg != "" {
			v.bad("secrets", k, "%s", msg)
		}
		if _, ok := s.Env[k]; ok {
			v.bad("secrets", k, "is set in env too; keep one of them")
		}
		if _, err := ParseSecretRef(string(ref)); err != nil {
			v.bad("secrets."+k, string(ref), "%v", err)
		}
	}
	v.config(s.Config)
	for k := range s.Config {
		_, env := s.Env[k]
		if _, sec := s.Secrets[k]; env || sec {
			v.bad("config", k, "is set in env or secrets too; keep one of them")
		}
	}
}

func (v *deploymentCheck) config(m map[string]string) {
	for k, val := range m {
		if msg := checkEnvName(k); msg != "" {
			v.bad("config", k, "%s", msg)
		}
		v.text("config."+k, val)
	}
}

func (v *deploymentCheck) ports(ports []Port) {
	type key struct {
		n int
		p Protocol
	}
	seen, names := map[key]bool{}, map[string]bool{}
	for i, p := range ports {
		field := fmt.Sprintf("ports[%d]", i)
		if p.Port < 1 || p.Port > 65535 {
			v.bad(field+".port", fmt.Sprint(p.Port), "is 1 to 65535")
		}
		proto := p.Protocol
		switch proto {
		case "":
			proto = ProtocolTCP
		case ProtocolTCP, ProtocolUDP:
		default:
			v.bad(field+".protocol", string(proto), "is tcp or udp")
		}
		if k := (key{p.Port, proto}); seen[k] {
			v.bad(field, fmt.Sprint(p.Port), "stands twice")
		} else {
			seen[k] = true
		}
		v.text(field+".name", p.Name)
		if p.Name != "" && names[p.Name] {
			v.bad(field+".name", p.Name, "stands twice")
		}
		names[p.Name] = true
	}
}

func (v *deploymentCheck) health(h HealthCheck) {
	ways := 0
	for _, set := range []bool{h.Command != nil, h.HTTPPath != "", h.TCP} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		v.bad("health", "", "has exactly one of command, http_path and tcp")
	}
	v.argv("health.command", h.Command)
	v.text("health.http_path", h.HTTPPath)
	if h.HTTPPath != "" && h.HTTPPath[0] != '/' {
		v.bad("health.http_path", h.HTTPPath, "starts with /")
	}
	if network := h.HTTPPath != "" || h.TCP; network && (h.Port < 1 || h.Port > 65535) {
		v.bad("health.port", fmt.Sprint(h.Port), "is 1 to 65535")
	} else if !network && h.Port != 0 {
		v.bad("health.port", fmt.Sprint(h.Port), "belongs to http_path or tcp")
	}
	for field, d := range map[string]time.Duration{"interval": h.Interval, "timeout": h.Timeout, "start_period": h.StartPeriod} {
		if d < 0 {
			v.bad("health."+field, d.String(), "is negative")
		}
	}
	if h.Failures < 0 {
		v.bad("health.failures", fmt.Sprint(h.Failures), "is negative")
	}
}

// ValidateConfig returns what no backend would take of a change of config.
func ValidateConfig(set map[string]string, secrets map[string]SecretRef, unset []string) []Problem {
	v := deploymentCheck{}
	v.variables(DeploymentSpec{Config: set, Secrets: secrets})
	seen := map[string]bool{}
	for _, k := range unset {
		_, a := set[k]
		if _, b := secrets[k]; a || b || seen[k] {
			v.bad("unset", k, "stands twice")
		}
		seen[k] = true
		if msg := checkEnvName(k); msg != "" {
			v.bad("unset", k, "%s", msg)
		}
	}
	if len(set)+len(secrets)+len(unset) == 0 {
		v.bad("config", "", "nothing is to be changed")
	}
	slices.SortStableFunc(v.ps, func(a, b Problem) int { return strings.Compare(a.Field+"\x00"+a.Value, b.Field+"\x00"+b.Value) })
	return v.ps
}
