//go:build linux

package iac

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// sent returns what a plugin got for a spec.
func (o opened) sent(t *testing.T, y *yard, spec sdk.JobSpec) *pb.JobSpec {
	t.Helper()
	l := o.prepare(t, spec)
	if len(l.Problems) > 0 {
		t.Fatal(sdk.JoinProblems(l.Problems))
	}
	raw, err := l.Encode() // as it comes out of the ledger
	if err != nil {
		t.Fatal(err)
	}
	if l, err = sdk.DecodeLaunch(raw); err != nil {
		t.Fatal(err)
	}
	if _, err := o.run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil {
		t.Fatal(err)
	}
	all := y.sent()
	return all[len(all)-1]
}

// TestRequest: what a spec becomes, field by field. Nothing of a deployment or a schedule
// is ever sent.
func TestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		spec   sdk.JobSpec
		want   *pb.JobSpec
	}{
		"the image's own command": {`{}`, sdk.JobSpec{}, &pb.JobSpec{}},
		"arguments":               {`{}`, sdk.JobSpec{Args: sdk.Argv{"sh", "-c", "exit 7"}}, &pb.JobSpec{RunCommand: `exec 'sh' '-c' 'exit 7'`}},
		"entrypoint":              {`{}`, sdk.JobSpec{Entrypoint: sdk.Argv{"/e", ""}, Args: sdk.Argv{"it's"}}, &pb.JobSpec{RunCommand: `exec '/e' '' 'it'\''s'`}},
		"a cleared entrypoint":    {`{}`, sdk.JobSpec{Entrypoint: sdk.Argv{}, Args: sdk.Argv{"a"}}, &pb.JobSpec{RunCommand: `exec 'a'`}},
		"the image's entrypoint":  {`{}`, sdk.JobSpec{ImageEntrypoint: sdk.Argv{"/e"}, Args: sdk.Argv{"a"}}, &pb.JobSpec{RunCommand: `exec '/e' 'a'`}},
		"variables": {`{}`, sdk.JobSpec{Env: sdk.Env{"A": "secret://x/y $A\n"}, Secrets: map[string]sdk.SecretRef{"S": "secret://vault/s#k?version=2"}},
			&pb.JobSpec{EnvVars: map[string]string{"A": "secret://x/y $A\n"}, EnvVarsSecret: map[string]string{"S": "secret://vault/s#k?version=2"}}},
		"target of the provider": {`{"target":{"name":"n","type":"t","provider_id":"i"}}`, sdk.JobSpec{}, &pb.JobSpec{Target: &pb.ResourceRef{Name: "n", Type: "t", ProviderId: "i"}}},
		"target of the job": {`{"target":{"name":"n","type":"t"}}`, sdk.JobSpec{Options: json.RawMessage(`{"target":{"name":"m","type":"t"}}`)},
			&pb.JobSpec{Target: &pb.ResourceRef{Name: "m", Type: "t"}}},
		"a time-out":         {`{}`, sdk.JobSpec{Timeout: 100 * time.Second}, &pb.JobSpec{TimeoutSeconds: 710}},
		"with a start's":     {`{}`, sdk.JobSpec{Timeout: 100 * time.Second, StartTimeout: 1500 * time.Millisecond}, &pb.JobSpec{TimeoutSeconds: 112}},
		"beyond the wire's":  {`{}`, sdk.JobSpec{Timeout: time.Hour}, &pb.JobSpec{}},
		"permissive profile": {`{}`, sdk.JobSpec{Profile: sdk.ProfilePermissive}, &pb.JobSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard()
			y.secrets["secret://vault/s#k?version=2"] = []byte("v")
			p := openYard(t, y, true, c.config)
			got := p.sent(t, y, c.spec)
			if !strings.HasPrefix(got.GetName(), "wl-") || len(got.GetName()) > 32 {
				t.Errorf("name %q", got.GetName())
			}
			c.want.Name, c.want.Kind, c.want.Image = got.GetName(), "EPHEMERAL", "app:1"
			if !proto.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// TestRefused: what the wire can't carry is refused, naming the field; nothing is sent.
func TestRefused(t *testing.T) {
	y := newYard()
	p := openYard(t, y, true, `{}`)
	grace := time.Duration(0)
	for field, spec := range map[string]sdk.JobSpec{
		"args[0]":             {Args: sdk.Argv{"\xff"}},
		"args[1]":             {Args: sdk.Argv{"a", "\x00"}},
		"args":                {Args: sdk.Argv{strings.Repeat("x", maxCommand)}},
		"env.A":               {Env: sdk.Env{"A": "\xff"}},
		"env.A-B":             {Env: sdk.Env{"A-B": "c"}},
		"env.IFS":             {Env: sdk.Env{"IFS": "c"}},
		"secrets.PWD":         {Secrets: map[string]sdk.SecretRef{"PWD": "secret://vault/s"}},
		"env":                 {Env: sdk.Env{"A": strings.Repeat("x", maxRequest)}},
		"workdir":             {Workdir: "/src"},
		"user":                {User: "1"},
		"cpu":                 {CPU: 500},
		"memory":              {Memory: 1 << 20},
		"pids":                {PIDs: 9},
		"labels.team":         {Labels: map[string]string{"team": "a"}},
		"network":             {Network: "none"},
		"mounts[0]":           {Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/x"}}},
		"files[0]":            {Files: []sdk.InputFile{{Path: "/x", Data: []byte("x")}}},
		"stdin":               {Stdin: sdk.StdinSpooled},
		"profile":             {Profile: sdk.ProfileStrict},
		"ttl":                 {TTL: time.Hour},
		"grace":               {Grace: &grace},
		"options.cron":        {Options: json.RawMessage(`{"cron":"* * * * *"}`)},
		"options.target.name": {Options: json.RawMessage(`{"target":{"type":"t"}}`)},
		"image":               {Image: "a b"},
	} {
		l := p.prepare(t, spec)
		if !slices.ContainsFunc(l.Problems, func(pr sdk.Problem) bool { return pr.Field == field && pr.Message != "" }) {
			t.Errorf("%s isn't refused: %s", field, sdk.JoinProblems(l.Problems))
		}
		if _, err := p.run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: a launch with a problem is sent: %v", field, err)
		}
	}
	if n := len(y.sent()); n != 0 {
		t.Errorf("%d jobs were sent", n)
	}
}

// TestWithoutCancel: what nothing could end is refused, or said.
func TestWithoutCancel(t *testing.T) {
	y := newYard()
	p := openYard(t, y, false, `{}`)
	for field, spec := range map[string]sdk.JobSpec{"timeout": {Timeout: 2 * time.Hour}, "start_timeout": {StartTimeout: time.Minute}} {
		if l := p.prepare(t, spec); len(l.Problems) != 1 || l.Problems[0].Field != field {
			t.Errorf("%s: %s", field, sdk.JoinProblems(l.Problems))
		}
	}
	l := p.prepare(t, sdk.JobSpec{Timeout: 90 * time.Second, Options: json.RawMessage(`{"target":{"name":"n","type":"t"}}`)})
	if len(l.Warnings) != 2 || !strings.Contains(l.Warnings[0], "time-out") || !strings.Contains(l.Warnings[1], "target") {
		t.Errorf("warnings %q", l.Warnings)
	}
	if got := p.sent(t, y, sdk.JobSpec{Timeout: 89500 * time.Millisecond}); got.GetTimeoutSeconds() != 90 {
		t.Errorf("the plugin is told %d s", got.GetTimeoutSeconds())
	}
}

// TestInitialize: the plugin is told its configuration as it stands, once; a provider's own
// members go before, and a process takes no second configuration.
func TestInitialize(t *testing.T) {
	y := newYard()
	k := serve(t, y, true)
	const base = `{ "token": "secret://x/y",  "n": 1.50 }`
	d, err := Driver(Plugin{Kind: "theirs", Conn: k.conn, Services: services(true), Config: json.RawMessage(base), Schemes: []string{"mine"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Schemes, []string{"mine"}) {
		t.Errorf("schemes %q", d.Schemes)
	}
	for range 2 {
		p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "a", Config: json.RawMessage(`{"account":"x"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if id := p.Info().Identity; id != (sdk.Identity{Kind: "theirs", Account: "x", Endpoint: "yard"}) {
			t.Errorf("identity %s", id)
		}
	}
	if !slices.Equal(y.configs, []string{base}) {
		t.Errorf("initialized with %q", y.configs)
	}
	if _, err := d.Open(t.Context(), sdk.OpenRequest{Name: "b", Config: json.RawMessage(`{"plugin":{"n":2}}`)}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("another configuration: %v", err)
	}
	var m map[string]any
	raw, err := merged(json.RawMessage(base), json.RawMessage(`{"n":2,"o":null}`))
	if err != nil || json.Unmarshal(raw, &m) != nil || !maps.Equal(m, map[string]any{"token": "secret://x/y", "n": 2.0, "o": nil}) {
		t.Errorf("merged to %s, %v", raw, err)
	}
	for _, bad := range []string{`{"plugin":"canary"}`, `{"log_quiet":"0s"}`, `{"target":{}}`, `{"token":"x"}`} {
		if _, err := d.Open(t.Context(), sdk.OpenRequest{Name: "c", Config: json.RawMessage(bad)}); !errors.Is(err, sdk.InvalidArgument) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
