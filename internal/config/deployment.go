package config

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// ErrDeployment is the ID of what is wrong with a file of a deployment.
const ErrDeployment = "config.deployment"

// Deployment is a file that describes a workload.
type Deployment struct {
	// Target is where it goes; zero where the file doesn't say.
	Target sdk.Target
	Spec   sdk.DeploymentSpec
}

// DeploymentSchema describes the file's members. Quantities are as in Kubernetes.
func DeploymentSchema() sdk.Schema {
	text := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeString, Doc: doc}
	}
	list := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeList, Doc: doc, Elem: &sdk.SchemaField{Type: sdk.TypeString}}
	}
	num := func(name, doc string, low, high int64) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeInt, Doc: doc, Min: low, Max: high}
	}
	dur := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeDuration, Doc: doc}
	}
	pairs := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeMap, Doc: doc}
	}
	return sdk.Schema{Doc: "A workload, for windlass svc start -f.", Fields: []sdk.SchemaField{
		text("target", "Where it goes, as PROVIDER/PATH; the command may say it instead."),
		text("name", "Its name; unset is the last part of the target."),
		{Name: "image", Type: sdk.TypeString, Required: true, Doc: "The container image."},
		list("command", "The command with its arguments; unset is the image's own."),
		pairs("env", "Variables."),
		pairs("secrets", "Variables whose values are references, as in secret://env/TOKEN."),
		{Name: "ports", Type: sdk.TypeList, Doc: "The ports that it listens on.", Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
			text("name", "A name for the port."),
			{Name: "port", Type: sdk.TypeInt, Required: true, Min: 1, Max: 65535, Doc: "The port."},
			{Name: "protocol", Type: sdk.TypeString, Enum: []string{"tcp", "udp"}, Default: "tcp", Doc: "How it is spoken to."},
		}}},
		num("replicas", "How many instances there are to be.", 0, 100_000),
		{Name: "resources", Type: sdk.TypeObject, Doc: "The bounds of one instance.", Fields: []sdk.SchemaField{
			text("cpu", "Cores, as in 0.5 or 500m."), text("memory", "Memory, as in 128Mi or 1Gi."),
		}},
		{Name: "health", Type: sdk.TypeObject, Doc: "When an instance counts as ready: one of command, http_path and tcp.", Fields: []sdk.SchemaField{
			list("command", "A command that succeeds within it."),
			text("http_path", "A path that answers 200 to 399 on port."),
			{Name: "tcp", Type: sdk.TypeBool, Doc: "The port takes connections."},
			num("port", "The port of http_path or tcp.", 1, 65535),
			dur("interval", "The time between two checks."), dur("timeout", "The time of one check."),
			dur("start_period", "The time in which failures don't count."), num("failures", "How many in a row make it unhealthy.", 1, 1000),
		}},
		pairs("config", "Settings that are kept beside the workload, and that windlass svc config changes."),
		{Name: "options", Type: sdk.TypeAny, Doc: "The kind's own options."},
	}}
}

// deploymentFile is the file as it is read.
type deploymentFile struct {
	Target    string                   `json:"target"`
	Name      string                   `json:"name"`
	Image     string                   `json:"image"`
	Command   []string                 `json:"command"`
	Env       map[string]string        `json:"env"`
	Secrets   map[string]sdk.SecretRef `json:"secrets"`
	Ports     []sdk.Port               `json:"ports"`
	Replicas  *int                     `json:"replicas"`
	Resources struct {
		CPU    string `json:"cpu"`
		Memory string `json:"memory"`
	} `json:"resources"`
	Health *struct {
		Command     []string     `json:"command"`
		HTTPPath    string       `json:"http_path"`
		TCP         bool         `json:"tcp"`
		Port        int          `json:"port"`
		Interval    sdk.Duration `json:"interval"`
		Timeout     sdk.Duration `json:"timeout"`
		StartPeriod sdk.Duration `json:"start_period"`
		Failures    int          `json:"failures"`
	} `json:"health"`
	Config  map[string]string `json:"config"`
	Options json.RawMessage   `json:"options"`
}

// ParseDeployment reads a deployment from the YAML of a file that is called name.
// All that is wrong with it comes back at once, each with its place. What no
// backend would take is left to sdk.ValidateDeployment.
func ParseDeployment(name string, data []byte) (Deployment, error) {
	const op = "read deployment"
	problem := func(line, column int, key, message string) Problem {
		return Problem{ID: ErrDeployment, Origin: Origin{Kind: FromFile, Name: name, Line: line, Column: column}, Key: key, Message: message}
	}
	root, err := yamltree.Parse(data)
	var syntax *yamltree.SyntaxError
	if errors.As(err, &syntax) {
		return Deployment{}, invalid(op, []Problem{problem(syntax.Line, syntax.Column, "", syntax.Message)})
	}
	if err != nil {
		return Deployment{}, &sdk.Error{Code: sdk.InvalidArgument, Op: op, ID: ErrDeployment, Err: err}
	}
	if root.Kind != yamltree.Map {
		return Deployment{}, invalid(op, []Problem{problem(1, 1, "", "a deployment is a mapping with an image")})
	}
	top := yamltree.Field{Line: 1, Column: 1, Value: root}
	var ps []Problem
	at := func(key, message string) {
		line, col := top.Place(key, true)
		ps = append(ps, problem(line, col, key, message))
	}
	raw := root.JSON()
	for _, p := range DeploymentSchema().Validate("", raw) {
		key := strings.TrimPrefix(p.Field, ".")
		message := p.Message
		if p.Value != "" {
			message = p.Value + " " + message
		}
		at(key, message)
	}
	if len(ps) > 0 {
		return Deployment{}, invalid(op, ps)
	}
	var f deploymentFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return Deployment{}, &sdk.Error{Code: sdk.InvalidArgument, Op: op, ID: ErrDeployment, Err: err}
	}
	d := Deployment{Spec: f.spec()}
	if f.Target != "" {
		if d.Target, err = sdk.ParseTarget(f.Target); err != nil {
			at("target", causeOf(err))
		} else if f.Name == "" {
			d.Spec.Name = d.Target.Path.Name()
		}
	}
	if q := f.Resources.CPU; q != "" {
		if d.Spec.Resources.CPU, err = ParseCPU(q); err != nil {
			at("resources.cpu", causeOf(err))
		}
	}
	if q := f.Resources.Memory; q != "" {
		if d.Spec.Resources.Memory, err = ParseMemoryQuantity(q); err != nil {
			at("resources.memory", causeOf(err))
		}
	}
	return d, invalid(op, ps)
}

// causeOf is an error without its operation, which the place stands for.
func causeOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// spec is the deployment but for its quantities.
func (f deploymentFile) spec() sdk.DeploymentSpec {
	s := sdk.DeploymentSpec{V: sdk.DeploymentVersion, Name: f.Name, Image: f.Image, Command: f.Command, Env: f.Env, Secrets: f.Secrets, Ports: f.Ports,
		Replicas: f.Replicas, Config: f.Config, Options: f.Options}
	if h := f.Health; h != nil {
		s.Health = &sdk.HealthCheck{Command: h.Command, HTTPPath: h.HTTPPath, TCP: h.TCP, Port: h.Port, Interval: time.Duration(h.Interval),
			Timeout: time.Duration(h.Timeout), StartPeriod: time.Duration(h.StartPeriod), Failures: h.Failures}
	}
	return s
}
