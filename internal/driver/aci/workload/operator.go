// Package workload operates container groups that stay up, of one subscription of
// Azure Container Instances.
//
// A workload is a container group, RESOURCE-GROUP/NAME, and its instances are the
// group's containers. A group has no replicas, so that nothing scales it. The first
// container is the workload's own: its image is shown, its settings are changed,
// commands run in it unless another is named.
//
// Groups that are jobs of Windlass's are none of its workloads.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/glance"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

// Settings are what an operator is made of.
type Settings struct {
	// Provider is the configured name, for errors.
	Provider string
	Session  *azure.Session
	// ResourceGroup and Location are where jobs go. Groups of other resource groups
	// and regions are operated too; new ones are made in Location.
	ResourceGroup, Location string
	// Reads and Writes are the budgets of calls.
	Reads, Writes *azure.Budget
	Clock         sdk.Clock
	// VisibleWithin is by when a request has taken effect and its effect is shown.
	VisibleWithin time.Duration
	// LogPoll is the time between two reads of a followed log.
	LogPoll time.Duration
	// ExecShell is a shell of POSIX's within the containers, by which commands are
	// run and their exit codes told; empty for none.
	ExecShell string
	// AppConfiguration is the store in which settings are kept too; empty for none.
	AppConfiguration string

	// Resolve reads a secret, CheckSecret says why a reference can't be taken, or
	// nothing.
	Resolve     func(ctx context.Context, op string, ref sdk.SecretRef) (sdk.SecretValue, error)
	CheckSecret func(ref sdk.ParsedSecretRef) string
	// Password is the reference to the password of a registry's user, empty for none
	// that is configured.
	Password func(server string) sdk.SecretRef
	// Place makes a group without containers of options.
	Place func(options json.RawMessage) (Place, []sdk.Problem)
	// Size chooses cores and gigabytes.
	Size func(r sdk.Limits, bad func(field, message string)) (cores, gigabytes float64)
	// Reason reads Azure's words for a failure, empty for none that is known.
	Reason func(text string) sdk.Reason
	// Refused gives a refusal of a new group its code and remedy.
	Refused func(err error) error
	// ParseLog cuts a log into lines.
	ParseLog func(text string) []Line
}

// Place is a group without containers.
type Place struct {
	Group *arm.ContainerGroup
	// Passwords are the references to those of registries, by server.
	Passwords map[string]sdk.SecretRef
	// Public gives the group an address on the internet where it has ports and no
	// subnet.
	Public bool
}

// Line is one line of a log. Raw has its stamp and newline, Data no stamp.
type Line struct {
	At        time.Time
	Raw, Data string
}

// Operator has the capabilities of live workloads. It is safe for concurrent use.
type Operator struct {
	Settings
	groups     *arm.ContainerGroupsClient
	containers *arm.ContainersClient
	metrics    *armmonitor.MetricsClient
	// seen are groups as a brief status has just read them.
	seen glance.Glances[at, *arm.ContainerGroup]
}

var (
	_ sdk.WorkloadLister   = (*Operator)(nil)
	_ sdk.WorkloadStatuser = (*Operator)(nil)
	_ sdk.Starter          = (*Operator)(nil)
	_ sdk.Stopper          = (*Operator)(nil)
	_ sdk.Restarter        = (*Operator)(nil)
	_ sdk.Configurer       = (*Operator)(nil)
	_ sdk.Execer           = (*Operator)(nil)
	_ sdk.LogTailer        = (*Operator)(nil)
	_ sdk.MetricStreamer   = (*Operator)(nil)
)

// New makes an operator.
func New(s Settings) (*Operator, error) {
	o := &Operator{Settings: s}
	token, options := s.Session.Client()
	var err error
	if o.groups, err = arm.NewContainerGroupsClient(s.Session.Subscription, token, options); err != nil {
		return nil, err
	}
	if o.containers, err = arm.NewContainersClient(s.Session.Subscription, token, options); err != nil {
		return nil, err
	}
	o.metrics, err = armmonitor.NewMetricsClient(s.Session.Subscription, token, options)
	return o, err
}

// Guarantees is what an operator with these settings gives.
func Guarantees(visibleWithin time.Duration, execShell string) sdk.WorkloadGuarantees {
	g := sdk.WorkloadGuarantees{
		// The tag windlass-op names the last operation, and what was there before it.
		Ops: sdk.OpGuarantee{By: sdk.OpOnObject, Within: visibleWithin},
		// A restart is in place as long as the group stays on its machine, and nothing
		// promises that it does.
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-update
		Restart:  sdk.RestartReplaces,
		Stop:     sdk.StopStops,
		Failures: true,
		// One terminal, whose end tells no exit code.
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-exec
		Exec:  sdk.ExecGuarantee{Argv: sdk.ArgvOneString, Terminal: true},
		Warms: warms,
	}
	if execShell != "" {
		g.Exec.ExitCode, g.Exec.Argv = true, sdk.ArgvExact
	}
	return g
}

// at is where a workload is.
type at struct{ group, name string }

func (w at) path() sdk.WorkloadPath { return sdk.WorkloadPath(w.group + "/" + w.name) }

// The forms of names:
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules
var (
	groupForm = form(`^[\p{L}\p{Nd}_().-]{0,89}[\p{L}\p{Nd}_()-]$`)
	nameForm  = form(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// find reads a path.
func (o *Operator) find(op string, path sdk.WorkloadPath) (at, error) {
	if err := path.Check(); err != nil {
		return at{}, err
	}
	parts := path.Segments()
	if len(parts) != 2 || !groupForm().MatchString(parts[0]) || !nameForm().MatchString(parts[1]) {
		e := o.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no workload of Container Instances: write RESOURCE-GROUP/NAME", path))
		e.Field = "target"
		return at{}, e
	}
	return at{parts[0], parts[1]}, nil
}

// get reads a group that is a workload.
func (o *Operator) get(ctx context.Context, op string, w at) (*arm.ContainerGroup, error) {
	g, err := turn.Call(ctx, o.Provider, o.Session, o.Reads, op, func(ctx context.Context) (*arm.ContainerGroup, error) {
		res, err := o.groups.Get(ctx, w.group, w.name, nil)
		return &res.ContainerGroup, err
	})
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return nil, o.fail(sdk.NotFound, op, fmt.Errorf("there is no container group %s: %w", w.path(), errors.Unwrap(err)))
	case err != nil:
		return nil, err
	case g.Properties == nil || len(containersOf(g)) == 0:
		return nil, o.fail(sdk.Internal, op, fmt.Errorf("the container group %s is shown without containers", w.path()))
	case isJob(g):
		e := o.fail(sdk.FailedPrecondition, op, fmt.Errorf("the container group %s is a job's", w.path()))
		e.Remedy = "`windlass ps` lists jobs; `windlass cancel` ends one"
		return nil, e
	}
	return g, nil
}

// open reads a path and the group that it names, for a call whose context goes on.
func (o *Operator) open(ctx context.Context, op string, path sdk.WorkloadPath) (at, *arm.ContainerGroup, error) {
	if err := ctx.Err(); err != nil {
		return at{}, nil, o.fail(sdk.CodeOf(err), op, err)
	}
	w, err := o.find(op, path)
	if err != nil {
		return at{}, nil, err
	}
	g, err := o.get(ctx, op, w)
	return w, g, err
}

func (o *Operator) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: o.Provider, Err: err}
}

// refuse makes an error of problems.
func (o *Operator) refuse(op string, ps []sdk.Problem) error {
	e := o.fail(ps[0].Code, op, errors.New(sdk.JoinProblems(ps)))
	if e.Field = ps[0].Field; e.Code == 0 {
		e.Code = sdk.InvalidArgument
	}
	return e
}

func isJob(g *arm.ContainerGroup) bool { return tag(g, sdk.LabelRun) != "" }

// tag returns a group's tag. Names of tags are the same in any case.
func tag(g *arm.ContainerGroup, name string) string {
	for k, v := range g.Tags {
		if strings.EqualFold(k, name) {
			return deref(v)
		}
	}
	return ""
}

// containersOf are a group's containers that are whole.
func containersOf(g *arm.ContainerGroup) []*arm.Container {
	var out []*arm.Container
	if g.Properties == nil {
		return nil
	}
	for _, c := range g.Properties.Containers {
		if c != nil && c.Name != nil && c.Properties != nil {
			out = append(out, c)
		}
	}
	return out
}

func deref[T any](v *T) T {
	var zero T
	if v == nil {
		return zero
	}
	return *v
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
