//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/internal/driver/local/supervisor"
	"github.com/windlass-run/windlass/internal/failpoint"
	"github.com/windlass-run/windlass/sdk"
)

// Supervise makes the process a supervisor when its first argument says so; args
// are os.Args without the program's name. It is called at the top of main,
// before anything else: handled means that the process is to exit with code.
func Supervise(args []string) (handled bool, code int) {
	return supervise(args, failpoint.Hit)
}

func supervise(args []string, hit func(string)) (bool, int) {
	if len(args) == 0 || args[0] != supervisor.Verb {
		return false, 0
	}
	return true, supervisor.Run(hit)
}

// Failpoints returns the boundaries of a launch, in the order in which they are
// passed: those of the process that calls RunJob, and those of the supervisor.
func Failpoints() (submitter, held []string) {
	return []string{pointFolder, pointSpawned, pointLaunched, pointOrdered, pointConfirmed}, supervisor.Points()
}

// The boundaries that RunJob passes, in their order.
const (
	pointFolder    = "local.folder"    // the folder is there, and locked
	pointSpawned   = "local.spawned"   // the supervisor waits for its order
	pointLaunched  = "local.launched"  // the launch is durable
	pointOrdered   = "local.ordered"   // the supervisor has its order
	pointConfirmed = "local.confirmed" // the supervisor has answered
)

type provider struct {
	name      string
	identity  sdk.Identity
	config    config
	secrets   sdk.SecretResolver
	clock     sdk.Clock
	log       *slog.Logger
	owner     string
	ledgerID  string
	state     string
	exe       string
	callLimit time.Duration
	bootID    string
	hit       func(string)
	env       []string // of supervisors

	watcher *watcher
	// done ends the goroutines that outlive a call: those that wait for
	// supervisors, and those that copy standard input.
	done  chan struct{}
	mu    sync.Mutex
	down  bool
	tasks sync.WaitGroup
}

var (
	_ sdk.Provider      = (*provider)(nil)
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.JobBatcher    = (*provider)(nil)
	_ sdk.JobWatcher    = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)
)

// config is what Driver.Config describes.
type config struct {
	MaxOutput int64  `json:"max_output"`
	Cgroup    string `json:"cgroup"`
}

// The values of config.Cgroup.
const (
	cgroupAuto = "auto"
	cgroupOff  = "off"
)

// capabilities are those that a provider has.
func capabilities() []string { return sdk.CapabilitiesOf[*provider]() }

func open(_ context.Context, r sdk.OpenRequest) (*provider, error) {
	fail := func(code sdk.Code, err error) (*provider, error) {
		return nil, &sdk.Error{Code: code, Op: "open provider", Provider: r.Name, Err: err}
	}
	c := config{MaxOutput: defaultMaxOutput, Cgroup: cgroupAuto}
	if err := configSchema().Decode("config", r.Config, &c); err != nil {
		return fail(sdk.InvalidArgument, err)
	}
	if r.StateDir == "" {
		return fail(sdk.InvalidArgument, errors.New("no state folder"))
	}
	r = r.Filled()
	boot, err := proc.BootID()
	if err != nil {
		return fail(sdk.FailedPrecondition, err)
	}
	p := &provider{
		name: r.Name, config: c, secrets: r.Secrets, clock: r.Clock, log: r.Log, owner: r.Owner, ledgerID: r.LedgerID,
		state: r.StateDir, exe: r.Executable, callLimit: r.CallTimeout, bootID: boot, hit: failpoint.Hit, env: failpoint.Environ(),
		identity: sdk.Identity{Kind: Kind, Endpoint: machine()},
	}
	if p.exe == "" {
		p.exe = ownProgram()
	}
	if p.callLimit <= 0 {
		p.callLimit = 30 * time.Second
	}
	p.watcher = newWatcher()
	p.done = make(chan struct{})
	return p, nil
}

// ownProgram is a path under which this program starts again, also after its
// file was replaced where the system has such a path.
func ownProgram() string {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe"
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// Info returns at once.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees()}
}

// Check looks at what jobs need of this machine, and says by what a whole tree
// of processes is ended here.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail("check provider", context.Cause(ctx))
	}
	var out sdk.CheckResult
	item := func(name string, err error, detail, remedy string) {
		i := sdk.CheckItem{Name: name, OK: err == nil, Detail: detail}
		if err != nil {
			i.Detail, i.Remedy = err.Error(), remedy
		}
		out.Items = append(out.Items, i)
	}
	item("state folder", unix.Access(p.state, unix.W_OK|unix.X_OK), p.state, "make "+p.state+" a folder that you may write")
	item("supervisor", unix.Access(p.exe, unix.X_OK), p.exe, "give the path of a windlass that may be executed")
	host, err := cgroup.Detect()
	if err != nil {
		item("tree", nil, kills(""), "")
		item("limits", err, "", "mount /proc")
		return out, nil
	}
	kind := host.Kind()
	if p.config.Cgroup == cgroupOff {
		kind = ""
	}
	item("tree", nil, kills(kind), "")
	// That a user may make no control groups is how most machines are: jobs run
	// there all the same, so nothing has failed.
	limits := "memory, cpu and pids"
	var lacks []string
	for _, l := range host.Lacks(cgroup.Limits{Memory: minMemory, CPU: cgroup.MinCPU, PIDs: 1}) {
		lacks = append(lacks, l.Error())
	}
	if len(lacks) > 0 {
		limits = "jobs run without --memory, --cpus and --pids (" + strings.Join(lacks, "; ") + "); for limits, " + delegate()
	}
	item("limits", nil, limits, "")
	return out, nil
}

// delegate is how a user comes to limits here.
func delegate() string {
	if runtime.GOOS != "linux" {
		return "use a provider of kind docker"
	}
	return "run windlass as root, or in a delegated control group (systemd-run --user --scope -p Delegate=yes)"
}

// kills says by what a whole tree is ended, and what remains when the
// supervisor itself is killed.
func kills(kind string) string {
	switch {
	case kind != "":
		return kind + ": names all processes of a job, whatever they do; when a supervisor is killed its job's own process dies with it, and cancel or clean-up end the rest"
	case runtime.GOOS == "linux":
		return "subreaper: finds all processes of a job while its supervisor lives; when a supervisor is killed its job's own process dies with it, and cancel or clean-up end what still has " + attemptVariable + " in its environment"
	default:
		return "process group: a process that leaves its job's group is not found, and nothing dies with a supervisor that is killed"
	}
}

// Close stops what the provider does in the background. An attached standard
// input ends with it; jobs go on.
func (p *provider) Close() error {
	p.mu.Lock()
	if !p.down {
		p.down = true
		close(p.done)
	}
	p.mu.Unlock()
	p.tasks.Wait()
	return p.watcher.close()
}

// background runs f, which returns soon after done is closed. It reports
// whether the provider is still open.
func (p *provider) background(f func(done <-chan struct{})) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.tasks.Go(func() { f(p.done) })
	return true
}

// fail wraps an error of ours, keeping its class and its other words.
func (p *provider) fail(op string, err error) error {
	out := &sdk.Error{Code: sdk.CodeOf(err), Op: op, Provider: p.name, Reason: attempt.MachineReason(err), Err: err}
	var e *sdk.Error
	if errors.As(err, &e) {
		out.Retryable, out.RetryAfter, out.Remedy, out.Field = e.Retryable, e.RetryAfter, "", ""
		if out.Reason == "" {
			out.Reason = e.Reason
		}
	}
	if out.Reason == sdk.ReasonInfrastructure {
		out.Remedy = "give this machine more of what the message names: open files (ulimit -n), processes (ulimit -u), memory or disk"
	}
	switch {
	case out.Code != sdk.Unknown:
	case errors.Is(err, os.ErrNotExist):
		out.Code = sdk.NotFound
	case errors.Is(err, os.ErrPermission):
		out.Code = sdk.PermissionDenied
	}
	return out
}

func (p *provider) failf(code sdk.Code, op, format string, args ...any) error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: fmt.Errorf(format, args...)}
}
