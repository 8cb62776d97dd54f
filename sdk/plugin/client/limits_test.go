package client_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// scripted is a provider whose methods are what its test says.
type scripted struct {
	sdk.Provider
	prepare func(context.Context, sdk.PrepareJobRequest) (sdk.Launch, error)
	run     func(context.Context, sdk.RunJobRequest) (sdk.RunJobResult, error)
	status  func(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error)
	logs    func(context.Context, sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error]
}

func (s *scripted) Info() sdk.Info { return sdk.Info{Name: "scripted", Kind: "scripted"} }
func (s *scripted) Close() error   { return nil }

func (s *scripted) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return s.prepare(ctx, r)
}

func (s *scripted) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return s.run(ctx, r)
}

func (s *scripted) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return s.status(ctx, r)
}

func (s *scripted) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return s.logs(ctx, r)
}

// open opens p through the wire.
func open(t *testing.T, p sdk.Provider) sdk.Provider {
	t.Helper()
	d := plugintest.Through(t, sdk.Driver{Kind: "scripted", Capabilities: sdk.CapabilityNames(p), Open: func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return p, nil }})
	return opened(t, d)
}

// opened opens a provider of d until the test is over.
func opened(t *testing.T, d sdk.Driver) sdk.Provider {
	t.Helper()
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "prod", Owner: "me", LedgerID: "ledger", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// of returns a capability that must be there.
func of[C any](t *testing.T, p sdk.Provider, c sdk.Capability[C]) C {
	t.Helper()
	v, ok := sdk.Of(p, c)
	if !ok {
		t.Fatalf("%s isn't there", c)
	}
	return v
}

// sized is a status whose message on the wire has at least so many bytes. No one value
// of it is so long that it would be cut.
func sized(n int) sdk.JobStatusResult {
	raw, word := map[string]string{}, strings.Repeat("x", wire.MaxWord)
	for i := range n/wire.MaxWord + 1 {
		raw[fmt.Sprintf("word %d", i)] = word
	}
	return sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: new(3), Launches: 1, Raw: raw}
}

// TestLargeReplies asks for replies beyond what gRPC takes by itself, up to this wire's
// bound and past it.
func TestLargeReplies(t *testing.T) {
	s := &scripted{}
	p := open(t, s)
	r := of(t, p, sdk.Runner())
	ask := func(n int) (sdk.JobStatusResult, error) {
		s.status = func(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error) { return sized(n), nil }
		return r.JobStatus(t.Context(), sdk.JobStatusRequest{})
	}
	if st, err := ask(40 << 20); err != nil || st.ExitCode == nil || *st.ExitCode != 3 || len(st.Raw) != len(sized(40<<20).Raw) {
		t.Errorf("a reply of 40 MiB: %+v, %v", st.ExitCode, err)
	}
	_, err := ask(wire.MaxMessage)
	if !errors.Is(err, sdk.ResourceExhausted) || sdk.IsRetryable(err) || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a reply past the bound: %v, retryable %t, status %v: %v", sdk.CodeOf(err), sdk.IsRetryable(err), status.Code(err), err)
	}
	for _, part := range []string{"JobRunnerService/JobStatus", fmt.Sprint(wire.MaxMessage), "larger than max (671"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%q isn't in %v", part, err)
		}
	}
	if _, err := ask(0); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestLongWordsDontCostTheExitCode lets a plugin tell of a job's end at a length that no
// message has room for: the code and the state arrive, and the words end in dots.
func TestLongWordsDontCostTheExitCode(t *testing.T) {
	s := &scripted{status: func(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
		st := sized(0)
		st.Message, st.Raw = strings.Repeat("é", wire.MaxMessage), map[string]string{"why": strings.Repeat("y", wire.MaxMessage), "phase": "Failed"}
		return st, nil
	}}
	st, err := of(t, open(t, s), sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{})
	if err != nil || st.ExitCode == nil || *st.ExitCode != 3 || st.State != sdk.StateFailed {
		t.Fatalf("got %s, %v, %v", st.State, st.ExitCode, err)
	}
	if st.Raw["phase"] != "Failed" || !strings.HasPrefix(st.Raw["why"], "yyy") || !strings.HasSuffix(st.Raw["why"], "...") || len(st.Raw["why"]) > wire.MaxWord {
		t.Errorf("raw words: %d bytes of why, phase %q", len(st.Raw["why"]), st.Raw["phase"])
	}
	if !strings.HasPrefix(st.Message, "ééé") || !strings.HasSuffix(st.Message, "...") || len(st.Message) > wire.MaxWord {
		t.Errorf("the message has %d bytes", len(st.Message))
	}
}

// TestLargeRepliesOfChanges lets the reply of a launch be too long. The job is there, so
// the error must prove nothing: ResourceExhausted would have it sent again.
func TestLargeRepliesOfChanges(t *testing.T) {
	made := 0
	s := &scripted{run: func(context.Context, sdk.RunJobRequest) (sdk.RunJobResult, error) {
		made++
		return sdk.RunJobResult{Handle: sdk.JobHandle{V: 1, ID: strings.Repeat("x", wire.MaxMessage)}}, nil
	}}
	_, err := of(t, open(t, s), sdk.Runner()).RunJob(t.Context(), sdk.RunJobRequest{})
	if made != 1 || sdk.CodeOf(err) != sdk.Internal || sdk.IsClear(err) || sdk.IsRetryable(err) || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d jobs, %v, clear %t, status %v", made, sdk.CodeOf(err), sdk.IsClear(err), status.Code(err))
	}
	if !strings.Contains(fmt.Sprint(err), "JobRunnerService/RunJob") || !strings.Contains(fmt.Sprint(err), fmt.Sprint(wire.MaxMessage)) {
		t.Errorf("got %v", err)
	}
}

// TestLargeRequests sends what has room and what has not, which is refused before any of
// it is sent.
func TestLargeRequests(t *testing.T) {
	asked := 0
	s := &scripted{
		prepare: func(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
			asked++
			return sdk.Launch{V: 1, Files: r.Spec.Files}, nil
		},
		run: func(_ context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
			asked++
			return sdk.RunJobResult{Handle: sdk.JobHandle{V: 1, ID: fmt.Sprintf("%x", sha256.Sum256(r.Launch.Files[0].Data))}}, nil
		},
	}
	r := of(t, open(t, s), sdk.Runner())
	file := []byte(strings.Repeat("0123456789abcdef", 20<<16))
	l, err := r.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{Files: []sdk.InputFile{{Path: "/in", Data: file}}}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if want := fmt.Sprintf("%x", sha256.Sum256(file)); err != nil || res.Handle.ID != want {
		t.Errorf("a file of %d bytes: %v, %v", len(file), res.Handle.ID, err)
	}
	asked = 0
	huge := sdk.Launch{V: 1, Files: []sdk.InputFile{{Path: "/in", Data: make([]byte, wire.MaxMessage)}}}
	_, prepared := r.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{Files: huge.Files}})
	_, ran := r.RunJob(t.Context(), sdk.RunJobRequest{Launch: huge})
	for method, err := range map[string]error{"PrepareJob": prepared, "RunJob": ran} {
		if !errors.Is(err, sdk.InvalidArgument) || !strings.Contains(err.Error(), "JobRunnerService/"+method) || !strings.Contains(err.Error(), fmt.Sprint(wire.MaxMessage)) {
			t.Errorf("%s: %v: %v", method, sdk.CodeOf(err), err)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests that are too long reached the plugin", asked)
	}
}

// TestTooManyInputs prepares a job whose input files are more than a job may have: the
// answer is the driver's, by field, as it is in process.
func TestTooManyInputs(t *testing.T) {
	p := opened(t, plugintest.Through(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{})))
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := of(t, p, sdk.Runner()).PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1,
		Spec: sdk.JobSpec{Args: sdk.Argv{"true"}, Files: []sdk.InputFile{{Path: "/in", Data: make([]byte, 20<<20)}}}})
	if err != nil || len(l.Problems) != 1 || l.Problems[0].Field != "files" {
		t.Errorf("got %s, %v", sdk.JoinProblems(l.Problems), err)
	}
}
