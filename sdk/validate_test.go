package sdk_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func TestValidateSpec(t *testing.T) {
	neg := -time.Second
	big := make([]byte, sdk.MaxInputBytes/2+1)
	for _, c := range []struct {
		field string
		spec  sdk.JobSpec
	}{
		{"v", sdk.JobSpec{V: sdk.SpecVersion + 1}},
		{"args[1]", sdk.JobSpec{Args: sdk.Argv{"a", "b\x00"}}},
		{"entrypoint[0]", sdk.JobSpec{Entrypoint: sdk.Argv{"\x00"}}},
		{"entrypoint[0]", sdk.JobSpec{Entrypoint: sdk.Argv{""}}},
		{"image_entrypoint[0]", sdk.JobSpec{ImageEntrypoint: sdk.Argv{"\x00"}}},
		{"env", sdk.JobSpec{Env: sdk.Env{"": "x"}}},
		{"env", sdk.JobSpec{Env: sdk.Env{"A=B": "x"}}},
		{"env", sdk.JobSpec{Env: sdk.Env{"A\xff": "x"}}},
		{"env.A", sdk.JobSpec{Env: sdk.Env{"A": "\x00"}}},
		{"secrets", sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"1A": "secret://env/A"}}},
		{"secrets", sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"../A": "secret://env/A"}}},
		{"secrets", sdk.JobSpec{Env: sdk.Env{"A": ""}, Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"}}},
		{"secrets.A", sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"A": "plain"}}},
		{"secrets.A", sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"A": "secret://env/\xff"}}},
		{"name", sdk.JobSpec{Name: "\x00"}},
		{"workdir", sdk.JobSpec{Workdir: "/\xff"}},
		{"cpu", sdk.JobSpec{CPU: -1}},
		{"memory", sdk.JobSpec{Memory: -1}},
		{"gpu", sdk.JobSpec{GPU: -1}},
		{"ephemeral_storage", sdk.JobSpec{EphemeralStorage: -1}},
		{"pids", sdk.JobSpec{PIDs: -1}},
		{"timeout", sdk.JobSpec{Timeout: neg}},
		{"start_timeout", sdk.JobSpec{StartTimeout: neg}},
		{"ttl", sdk.JobSpec{TTL: -time.Second}},
		{"ttl", sdk.JobSpec{TTL: 500 * time.Millisecond}},
		{"grace", sdk.JobSpec{Grace: &neg}},
		{"retries", sdk.JobSpec{Retries: -1}},
		{"retries", sdk.JobSpec{Retries: sdk.MaxRetries + 1}},
		{"labels", sdk.JobSpec{Labels: map[string]string{"": "x"}}},
		{"labels", sdk.JobSpec{Labels: map[string]string{"windlass-run": "x"}}},
		{"labels", sdk.JobSpec{Labels: map[string]string{"a": "\xff"}}},
		{"labels.a", sdk.JobSpec{Labels: map[string]string{"a": "\x00"}}},
		{"stdin", sdk.JobSpec{Stdin: "x"}},
		{"stdin", sdk.JobSpec{Stdin: sdk.StdinAttached, Retries: 1}},
		{"profile", sdk.JobSpec{Profile: "root"}},
		{"mounts[0].type", sdk.JobSpec{Mounts: []sdk.Mount{{Type: "x", Target: "/a"}}}},
		{"mounts[0].source", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountBind, Source: "a", Target: "/a"}}}},
		{"mounts[0].source", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountVolume, Source: "/a", Target: "/a"}}}},
		{"mounts[0].source", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Source: "a", Target: "/a"}}}},
		{"mounts[0].target", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "a"}}}},
		{"mounts[0].target", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/a/.."}}}},
		{"mounts[0].size", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountBind, Source: "/a", Target: "/a", Size: 1}}}},
		{"mounts[1].target", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/a"}, {Type: sdk.MountTmpfs, Target: "/a/"}}}},
		{"mounts[0]", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/a\xff"}}}},
		{"files[0].path", sdk.JobSpec{Files: []sdk.InputFile{{Path: "a"}}}},
		{"files[0].path", sdk.JobSpec{Files: []sdk.InputFile{{Path: "/a/../b"}}}},
		{"files[0].path", sdk.JobSpec{Files: []sdk.InputFile{{Path: "/a\xff"}}}},
		{"files[0].mode", sdk.JobSpec{Files: []sdk.InputFile{{Path: "/a", Mode: 0o4755}}}},
		{"files[1].path", sdk.JobSpec{Files: []sdk.InputFile{{Path: "/a"}, {Path: "/a"}}}},
		{"files[0].path", sdk.JobSpec{Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/a"}}, Files: []sdk.InputFile{{Path: "/a"}}}},
		{"files", sdk.JobSpec{Files: []sdk.InputFile{{Path: "/a", Data: big}, {Path: "/b", Data: big}}}},
	} {
		ps := sdk.ValidateSpec(c.spec)
		if !slices.ContainsFunc(ps, func(p sdk.Problem) bool { return p.Field == c.field }) {
			t.Errorf("%s: got %q", c.field, sdk.JoinProblems(ps))
		}
		for _, p := range ps {
			if p.Message == "" || p.Code != sdk.InvalidArgument {
				t.Errorf("%s: %+v has no message or another code", c.field, p)
			}
		}
		// A refusal must be storable.
		if _, err := (sdk.Launch{V: 1, Kind: "k", Problems: ps}).Encode(); err != nil {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

// TestValidSpecsEncode: what ValidateSpec has nothing against can be stored.
func TestValidSpecsEncode(t *testing.T) {
	for seed := range uint64(500) {
		s := newGen(seed).spec()
		// Bytes that are no text, in fields of text.
		g := newGen(seed + 1000)
		fields := []*string{&s.Name, &s.Image, &s.Workdir, &s.User, &s.Network}
		*fields[g.IntN(len(fields))] = g.raw()
		if len(sdk.ValidateSpec(s)) > 0 {
			continue
		}
		if _, err := s.Encode(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestProblemsInOneOrder: the launch is hashed with its problems, so their
// order must not be a map's.
func TestProblemsInOneOrder(t *testing.T) {
	s := sdk.JobSpec{Env: sdk.Env{}, Labels: map[string]string{}, CPU: -1, Memory: -1, GPU: -1}
	for _, c := range strings.Split("a b c d e f g h", " ") {
		s.Env[c+"="], s.Labels["windlass-"+c] = "x\x00", "x"
	}
	first := sdk.ValidateSpec(s)
	for range 50 {
		if again := sdk.ValidateSpec(s); !reflect.DeepEqual(again, first) {
			t.Fatalf("got %s, then %s", sdk.JoinProblems(first), sdk.JoinProblems(again))
		}
	}
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sdk.SystemClock()
		before := c.Now()
		if err := c.Sleep(t.Context(), time.Minute); err != nil || c.Now().Sub(before) != time.Minute {
			t.Errorf("slept %s, %v", c.Now().Sub(before), err)
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		before = c.Now()
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, why) || c.Now().Sub(before) != time.Second {
			t.Errorf("slept %s, %v", c.Now().Sub(before), err)
		}
		if err := c.Sleep(ctx, 0); !errors.Is(err, why) {
			t.Errorf("sleep of nothing with an ended context: %v", err)
		}
		if err := c.Sleep(t.Context(), -time.Second); err != nil {
			t.Errorf("sleep of less than nothing: %v", err)
		}
	})
}
