package sdk_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// gen makes values at random, the odd ones more often than chance would.
type gen struct{ *rand.Rand }

func newGen(seed uint64) gen { return gen{rand.New(rand.NewPCG(seed, 1))} }

func (g gen) chance(n int) bool { return g.IntN(n) == 0 }

// text is UTF-8 without NUL.
func (g gen) text() string {
	odd := []string{"", "plain", " ", "a b", `"`, `\`, "<&>", "é家🚀", "\u2028", "\ufffd", "line\nline", "$(X)", strings.Repeat("x", 300), "\x7f", "null", "1e5"}
	if g.chance(2) {
		return odd[g.IntN(len(odd))]
	}
	return fmt.Sprintf("t%d", g.IntN(1000))
}

// raw is any bytes but NUL.
func (g gen) raw() string {
	b := make([]byte, g.IntN(12))
	for i := range b {
		b[i] = byte(1 + g.IntN(255))
	}
	return string(b)
}

func (g gen) argv() sdk.Argv {
	switch g.IntN(4) {
	case 0:
		return nil
	case 1:
		return sdk.Argv{}
	}
	a := sdk.Argv{"cmd"}
	for range g.IntN(4) {
		a = append(a, g.raw())
	}
	return a
}

func (g gen) name(i int) string { return fmt.Sprintf("N%d_%d", i, g.IntN(100)) }

func (g gen) texts() map[string]string {
	if g.chance(3) {
		return nil
	}
	m := map[string]string{}
	for i := range g.IntN(4) + 1 {
		m[g.name(i)] = g.text()
	}
	return m
}

func (g gen) duration() time.Duration {
	if g.chance(2) {
		return 0
	}
	return time.Duration(g.Int64N(int64(1000 * time.Hour)))
}

func (g gen) id() sdk.ID {
	var id sdk.ID
	for i := range id {
		id[i] = byte(g.IntN(256))
	}
	return id
}

func (g gen) identity() sdk.Identity {
	return sdk.Identity{Kind: "k" + g.text(), Account: g.text(), Region: g.text(), Endpoint: g.text()}
}

func (g gen) secrets() map[string]sdk.SecretRef {
	if g.chance(2) {
		return nil
	}
	return map[string]sdk.SecretRef{"S_" + fmt.Sprint(g.IntN(9)): "secret://env/A", "T": "secret://file//etc/x#key?version=3"}
}

func (g gen) files() []sdk.InputFile {
	var out []sdk.InputFile
	for i := range g.IntN(3) {
		out = append(out, sdk.InputFile{Path: fmt.Sprintf("/in/%d", i), Mode: int64(g.IntN(0o777)), Data: []byte(g.raw())})
	}
	return out
}

func (g gen) options() json.RawMessage {
	return []json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage(`{"b":[1,-2,{"x":null}],"a":"\u00e9"}`), json.RawMessage(` { "z" : true } `)}[g.IntN(4)]
}

// spec is one that ValidateSpec has nothing against.
func (g gen) spec() sdk.JobSpec {
	s := sdk.JobSpec{
		V: g.IntN(2), Name: g.text(), Image: g.text(), Entrypoint: g.argv(), Args: g.argv(), ImageEntrypoint: g.argv(),
		Secrets: g.secrets(), Workdir: g.text(), User: g.text(), CPU: int64(g.IntN(5000)), Memory: g.Int64N(1 << 60), PIDs: int64(g.IntN(9)),
		Timeout: g.duration(), StartTimeout: g.duration(), Retries: g.IntN(3), Labels: g.texts(), Network: g.text(), Files: g.files(),
		Stdin: []sdk.StdinMode{sdk.StdinNone, sdk.StdinSpooled}[g.IntN(2)], TTL: g.duration().Truncate(time.Second), AllowVisibleSecret: g.chance(2), Options: g.options(),
		Profile: []sdk.Profile{sdk.ProfileUnset, sdk.ProfileStrict, sdk.ProfileStandard, sdk.ProfilePermissive}[g.IntN(4)],
	}
	if g.chance(2) {
		d := g.duration()
		s.Grace = &d
	}
	if g.chance(2) {
		s.Env = sdk.Env{}
		for i := range g.IntN(4) {
			s.Env[g.name(i)] = g.raw()
		}
	}
	if g.chance(3) {
		s.Mounts = []sdk.Mount{{Type: sdk.MountBind, Source: "/a", Target: "/b" + g.name(1), ReadOnly: true}, {Type: sdk.MountTmpfs, Target: "/t", Size: 4096}}
	}
	return s
}

func (g gen) launch() sdk.Launch {
	l := sdk.Launch{
		V: 1, Kind: "k", Identity: g.identity(), RunID: g.id(), AttemptID: g.id(), Attempt: 1 + g.IntN(4), Owner: g.text(), LedgerID: g.text(),
		Names: g.texts(), Token: g.text(), Request: g.options(), Secrets: g.secrets(), Files: g.files(), Stdin: sdk.StdinSpooled,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByToken, Window: g.duration()}, Read: g.texts(), NativeDeadline: g.duration(),
		Warnings: []string{g.text()}, Fitted: []sdk.Fitted{{Field: "cpu", Value: g.text()}},
	}
	if g.chance(2) {
		l.Problems = []sdk.Problem{{Field: "args[0]", Value: g.raw(), Message: g.raw(), Code: sdk.InvalidArgument}}
	}
	if g.chance(2) {
		l.Expires = time.Unix(int64(g.IntN(1<<31)), int64(g.IntN(1e9))).In(time.FixedZone("x", 3600*g.IntN(5)))
	}
	return l
}

func (g gen) handle() sdk.JobHandle {
	return sdk.JobHandle{V: 1, Kind: "k" + g.text(), Identity: g.identity(), ID: "i" + g.text(), Name: g.text(), Metadata: g.texts()}
}
