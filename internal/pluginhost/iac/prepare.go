package iac

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

const (
	// kind is the only one that is ever sent: the others belong to deployments and
	// schedules of the ecosystem's own host.
	kind = "EPHEMERAL"
	// maxTimeout is the longest time-out that the wire takes.
	maxTimeout = time.Hour
	// maxRequest bounds a request, below the 4 MiB that a server takes unless it was
	// told otherwise.
	// https://pkg.go.dev/google.golang.org/grpc#MaxRecvMsgSize
	maxRequest = 3 << 20
	// roleJob is the job's in Launch.Names.
	roleJob = "job"
	// startReserve stands for the time until a job starts where no start time-out
	// bounds it.
	startReserve = 10 * time.Minute
)

// PrepareJob implements sdk.JobRunner. It reads nothing.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	const op = "prepare job"
	if err := p.absent(sdk.Runner().String()); err != nil {
		return sdk.Launch{}, err
	}
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, &sdk.Error{Code: sdk.CodeOf(err), Op: op, Provider: p.info.Name, Err: err}
	}
	d := launch.New(r.Spec, p.rows)
	d.Image("a published plugin")
	d.Permissive("a published plugin")
	d.TextArgv("the plugin wire")
	d.TextEnv("the plugin wire")
	for _, k := range slices.Sorted(maps.Keys(r.Spec.Labels)) {
		d.Bad(sdk.Unimplemented, "labels."+k, r.Spec.Labels[k], noLabels)
	}
	var o options
	d.Options(optionSchema(), &o)
	spec := &pb.JobSpec{
		// The attempt's ID, since nothing else of ours is on the backend: legal as a DNS
		// label, and within the 32 characters that the narrowest backend known takes.
		Name: "wl-" + r.AttemptID.String(), Kind: kind, Image: r.Spec.Image, RunCommand: command(&d),
		EnvVars: variables(&d), EnvVarsSecret: references(&d),
		Target: p.cfg.Target.proto(), TimeoutSeconds: p.timeout(&d),
	}
	if o.Target != nil {
		spec.Target = o.Target.proto()
	}
	if spec.Target != nil && !p.cancels() {
		d.Warnings = append(d.Warnings, "target is sent, and a plugin of the published wire's first version reads over it")
	}
	if n := proto.Size(spec); n > maxRequest {
		d.Bad(sdk.InvalidArgument, "env", fmt.Sprintf("%d bytes", n), "variables and command may have %d bytes in all: put the rest into the image, or fetch it in the job", maxRequest)
	}
	l := launch.For(r, sdk.SubmitByNothing, p.info.Identity, p.owner, p.ledger)
	l.Names = map[string]string{roleJob: spec.GetName()}
	l.Problems, l.Fitted, l.Warnings = d.Problems, d.Fitted, d.Warnings
	if len(d.Problems) > 0 {
		return l, nil // what has problems isn't sent, and may not even be text
	}
	req, err := encodeSpec(spec)
	if err != nil {
		return l, &sdk.Error{Code: sdk.Internal, Op: op, Provider: p.info.Name, Err: err}
	}
	l.Request = req
	return l, nil
}

func (p *provider) cancels() bool { return p.AskCapability(sdk.Canceler().String()) != nil }

// command is the command line; empty leaves the image's own.
func command(d *launch.Draft) string {
	s := d.Spec
	if s.Entrypoint == nil && s.Args == nil {
		return ""
	}
	entry := s.Entrypoint
	if entry == nil {
		entry = s.ImageEntrypoint
		switch {
		case s.ImageEntrypoint != nil:
		case len(s.Args) == 0:
			d.Bad(sdk.FailedPrecondition, "args", "[]", "a published plugin can't clear the image's arguments; say entrypoint, or image_entrypoint, which is then used")
			return ""
		default:
			d.Warnings = append(d.Warnings, "the plugin's backend may put args in the place of the image's own entrypoint; --image-entrypoint or --entrypoint says what begins the command")
		}
	}
	argv := append(append([]string{}, entry...), s.Args...)
	if len(argv) == 0 {
		d.Bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return ""
	}
	if argv[0] == "" {
		d.Bad(sdk.InvalidArgument, "args[0]", "", "is empty; a command needs a name")
	}
	line := commandLine(argv)
	if len(line) > maxCommand {
		d.Bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", len(line)), "a shell takes a command of %d bytes when it is quoted: put the rest into the image, or into variables", maxCommand)
	}
	return line
}

func variables(d *launch.Draft) map[string]string {
	for _, k := range slices.Sorted(maps.Keys(d.Spec.Env)) {
		if why := variable(k); why != "" && !d.Has("env."+k) {
			d.Bad(sdk.Unimplemented, "env."+k, "", "%s; use another name", why)
		}
	}
	return d.Spec.Env
}

// references are the secrets, never their values: the plugin resolves them.
func references(d *launch.Draft) map[string]string {
	out := make(map[string]string, len(d.Spec.Secrets))
	for _, k := range slices.Sorted(maps.Keys(d.Spec.Secrets)) {
		out[k] = string(d.Spec.Secrets[k])
		if why := variable(k); why != "" && !d.Has("secrets."+k) {
			d.Bad(sdk.Unimplemented, "secrets."+k, "", "%s; use another name", why)
		}
	}
	return out
}

// timeout is what the plugin is told in seconds; 0 is nothing. Windlass's own clock
// decides where the plugin can cancel: then it is a backstop, which counts from the
// submit for all that is known.
func (p *provider) timeout(d *launch.Draft) int32 {
	t := d.Spec.Timeout
	if t <= 0 || d.Has("timeout") {
		return 0
	}
	if !p.cancels() {
		if t > maxTimeout {
			d.Lacks("timeout", "this plugin can't cancel jobs, and the wire's own time-out is an hour at most; leave it out, or choose less")
			return 0
		}
		d.Warnings = append(d.Warnings, "this plugin can't cancel jobs: it is told the time-out, and nothing else ends the job")
		return seconds(t)
	}
	backstop := t + t/10 + startReserve
	if s := d.Spec.StartTimeout; s > 0 {
		backstop = t + t/10 + s
	}
	if backstop > maxTimeout {
		d.Fit("timeout", "", "the plugin isn't told, since its own is an hour at most; Windlass ends the job")
		return 0
	}
	return seconds(backstop)
}

// seconds rounds up, so that a time-out never comes early.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// encodeSpec returns the request in canonical JSON, with the wire's own names.
func encodeSpec(m *pb.JobSpec) (json.RawMessage, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return sdk.CanonicalJSON(b)
}

// decodeSpec reads what encodeSpec wrote; a member that isn't known is refused.
func decodeSpec(raw json.RawMessage) (*pb.JobSpec, error) {
	m := new(pb.JobSpec)
	return m, protojson.Unmarshal(raw, m)
}
