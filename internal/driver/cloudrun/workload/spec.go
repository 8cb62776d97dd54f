package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

// The bounds of a container.
// https://cloud.google.com/run/docs/configuring/services/environment-variables
// https://cloud.google.com/run/docs/configuring/healthchecks
const (
	maxVariables = 1000
	maxVariable  = 32768
	maxArgs      = 1000
	maxProbe     = 240 * time.Second

	mib = 1 << 20
	gib = 1 << 30

	client = "windlass"
)

// create makes the service of a spec.
func (w *Workloads) create(ctx context.Context, req sdk.OpRequest, s sdk.DeploymentSpec) (sdk.OpResult, error) {
	id, err := w.parse(ctx, opStart, req.Path)
	if err != nil {
		return sdk.OpResult{}, err
	}
	v, ps := w.plan(id, s)
	if err := w.refused(opStart, ps); err != nil {
		return sdk.OpResult{}, err
	}
	is, err := w.get(ctx, opStart, id)
	switch {
	case err == nil && is.GetAnnotations()[annotationOp] == req.OpID.String():
		return sdk.OpResult{Changed: true, Generation: generation(is), Rollout: generation(is), Trace: traceOf(is)}, nil
	case err == nil:
		return sdk.OpResult{}, w.fail(sdk.AlreadyExists, opStart, "the service %s is there already", req.Path)
	case sdk.CodeOf(err) != sdk.NotFound:
		return sdk.OpResult{}, err
	}
	if err := req.Expect.Check(opStart, sdk.DeploymentStatus{Path: req.Path}); err != nil {
		return sdk.OpResult{}, err
	}
	v.Annotations = map[string]string{annotationOp: req.OpID.String()}
	if req.DryRun {
		args := map[string]string{"image": s.Image}
		for _, e := range main(v.Template).GetEnv() {
			args["env."+e.GetName()] = sdk.Redacted
		}
		return sdk.OpResult{Changed: true, Calls: []sdk.PlannedCall{{Name: "run.projects.locations.services.create", Object: w.serviceName(id), Args: args}}}, nil
	}
	op, err := call(ctx, w, w.r.Writes, opStart, func(ctx context.Context) (*longrunningpb.Operation, error) {
		return w.r.Services.CreateService(ctx, &runpb.CreateServiceRequest{Parent: w.r.Session.Location(), ServiceId: id, Service: v})
	})
	if err != nil {
		return sdk.OpResult{}, err
	}
	res := sdk.OpResult{Changed: true, Trace: "annotation " + annotationOp + " of service " + id}
	v.Name = w.serviceName(id)
	if after := accepted(op, v); after.GetGeneration() > 0 {
		res.Generation, res.Rollout = generation(after), generation(after)
	}
	return res, nil
}

// refused makes problems one error, nil where there are none.
func (w *Workloads) refused(op string, ps []sdk.Problem) error {
	if len(ps) == 0 {
		return nil
	}
	return &sdk.Error{Code: ps[0].Code, Op: op, Provider: w.r.Provider, Field: ps[0].Field, Reason: sdk.ReasonInvalidSpec, Err: errors.New(sdk.JoinProblems(ps))}
}

// planning collects what can't be done of a spec.
type planning struct{ ps []sdk.Problem }

func (p *planning) bad(code sdk.Code, field, value, format string, args ...any) {
	p.ps = append(p.ps, sdk.Problem{Code: code, Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

// plan makes the service of a spec, and says what Cloud Run can't do of it.
func (w *Workloads) plan(id string, s sdk.DeploymentSpec) (*runpb.Service, []sdk.Problem) {
	p := &planning{ps: sdk.ValidateDeployment(s)}
	if s.Name != id {
		p.bad(sdk.InvalidArgument, "name", s.Name, "isn't that of the target, %s", id)
	}
	place, ps := w.r.Place(s.Options)
	p.ps = append(p.ps, ps...)
	c := &runpb.Container{Image: s.Image}
	p.command(c, s.Command)
	p.ports(c, s.Ports)
	p.size(c, s.Resources)
	if s.Health != nil {
		c.StartupProbe = p.probe(*s.Health)
	}
	c.Env = p.variables("env", nil, s.Env, nil)
	c.Env = p.variables("config", c.Env, s.Config, s.Secrets)
	v := &runpb.Service{Client: client, Labels: place.Labels, Template: &runpb.RevisionTemplate{Labels: place.Labels, ServiceAccount: place.ServiceAccount,
		VpcAccess: place.VPC, Containers: []*runpb.Container{c}}}
	if s.Replicas != nil && *s.Replicas >= 0 {
		byHand(v, *s.Replicas)
	}
	return v, p.ps
}

// command replaces entrypoint and arguments of the image.
// https://cloud.google.com/run/docs/configuring/services/containers
func (p *planning) command(c *runpb.Container, argv sdk.Argv) {
	if len(argv) > maxArgs {
		p.bad(sdk.InvalidArgument, "command", fmt.Sprint(len(argv)), "Cloud Run takes at most %d arguments", maxArgs)
	}
	for i, a := range argv {
		if !utf8.ValidString(a) {
			p.bad(sdk.Unimplemented, fmt.Sprintf("command[%d]", i), "", "is not UTF-8, and Cloud Run takes text alone")
		}
	}
	if len(argv) > 0 {
		c.Command, c.Args = argv[:1], argv[1:]
	}
}

// ports sets the one port that requests come to; 8080 where none is said.
// https://cloud.google.com/run/docs/container-contract
func (p *planning) ports(c *runpb.Container, list []sdk.Port) {
	if len(list) > 1 {
		p.bad(sdk.Unimplemented, "ports", fmt.Sprint(len(list)), "Cloud Run sends requests to one port of a service")
	}
	for i, port := range list {
		field := fmt.Sprintf("ports[%d]", i)
		if port.Protocol == sdk.ProtocolUDP {
			p.bad(sdk.Unimplemented, field+".protocol", string(port.Protocol), "Cloud Run speaks HTTP over TCP alone")
		}
		if port.Name != "" && port.Name != "http1" && port.Name != "h2c" {
			p.bad(sdk.Unimplemented, field+".name", port.Name, "Cloud Run knows http1 and h2c; leave it out for http1")
		}
		if len(c.Ports) == 0 {
			c.Ports = []*runpb.ContainerPort{{Name: port.Name, ContainerPort: int32(port.Port)}} //nolint:gosec // sdk.ValidateDeployment bounds it
		}
	}
}

// size sets the limits; what is unset is the platform's, 1 core and 512 MiB.
// https://cloud.google.com/run/docs/configuring/services/cpu
// https://cloud.google.com/run/docs/configuring/services/memory-limits
func (p *planning) size(c *runpb.Container, l sdk.Limits) {
	limits := map[string]string{}
	if l.CPU > 0 {
		if !slices.Contains([]int64{1000, 2000, 4000, 6000, 8000}, l.CPU) {
			p.bad(sdk.Unimplemented, "resources.cpu", fmt.Sprintf("%dm", l.CPU), "Cloud Run gives 1, 2, 4, 6 or 8 cores; a part of one only to instances that take one request at a time, which isn't offered here")
		}
		limits["cpu"] = fmt.Sprintf("%dm", l.CPU)
	}
	if l.Memory > 0 {
		if l.Memory < 512*mib || l.Memory > 32*gib || l.Memory%mib != 0 {
			p.bad(sdk.Unimplemented, "resources.memory", sdk.MemoryText(l.Memory), "Cloud Run gives 512Mi to 32Gi, in whole MiB")
		}
		limits["memory"] = fmt.Sprintf("%dMi", l.Memory/mib)
	}
	if len(limits) > 0 {
		// That CPU is there during requests alone is the default only while nothing
		// is said of resources.
		// https://cloud.google.com/run/docs/reference/rest/v2/Container#ResourceRequirements
		c.Resources = &runpb.ResourceRequirements{Limits: limits, CpuIdle: true}
	}
}

// probe is the startup probe: an instance gets requests once it has succeeded.
// https://cloud.google.com/run/docs/configuring/healthchecks
func (p *planning) probe(h sdk.HealthCheck) *runpb.Probe {
	out := &runpb.Probe{FailureThreshold: int32(min(h.Failures, 1<<16))} //nolint:gosec // bounded
	if h.Command != nil {
		p.bad(sdk.Unimplemented, "health.command", h.Command[0], "Cloud Run checks by http_path or tcp, and runs no command")
	}
	for _, f := range []struct {
		field string
		d     time.Duration
		to    *int32
	}{{"interval", h.Interval, &out.PeriodSeconds}, {"timeout", h.Timeout, &out.TimeoutSeconds}, {"start_period", h.StartPeriod, &out.InitialDelaySeconds}} {
		if f.d > maxProbe || f.d%time.Second != 0 {
			p.bad(sdk.Unimplemented, "health."+f.field, f.d.String(), "Cloud Run takes whole seconds, up to %s", maxProbe)
		}
		*f.to = int32(f.d / time.Second) //nolint:gosec // bounded
	}
	if h.Timeout > 0 && h.Interval > 0 && h.Timeout > h.Interval {
		p.bad(sdk.Unimplemented, "health.timeout", h.Timeout.String(), "Cloud Run wants it no longer than the interval")
	}
	switch {
	case h.HTTPPath != "":
		out.ProbeType = &runpb.Probe_HttpGet{HttpGet: &runpb.HTTPGetAction{Path: h.HTTPPath, Port: int32(h.Port)}} //nolint:gosec // sdk.ValidateDeployment bounds it
	case h.TCP:
		out.ProbeType = &runpb.Probe_TcpSocket{TcpSocket: &runpb.TCPSocketAction{Port: int32(h.Port)}} //nolint:gosec // likewise
	}
	return out
}

// reserved are the variables that Cloud Run sets itself.
// https://cloud.google.com/run/docs/container-contract#services-env-vars
func reserved() []string { return []string{"PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION"} }

// checkVariable says what is wrong with a variable.
func (p *planning) checkVariable(field, name, value string) {
	field += "." + name
	switch {
	case slices.Contains(reserved(), name):
		p.bad(sdk.InvalidArgument, field, "", "Cloud Run sets this variable itself")
	case !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0:
		p.bad(sdk.Unimplemented, field, "", "is not UTF-8, and Cloud Run takes text alone")
	case utf8.RuneCountInString(name) > maxVariable || utf8.RuneCountInString(value) > maxVariable:
		p.bad(sdk.InvalidArgument, field, fmt.Sprintf("%d bytes", len(value)), "Cloud Run gives a variable at most %d characters: put it into a secret", maxVariable)
	}
}
