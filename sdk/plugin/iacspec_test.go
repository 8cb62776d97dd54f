package plugin

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

func native() sdk.Guarantees {
	return sdk.Guarantees{Deadline: sdk.DeadlineGuarantee{Native: true, Max: time.Hour}}
}

// TestJobSpec reads every field of the published job, alone: what it becomes, or the
// field that refuses it. No field may be missing here.
func TestJobSpec(t *testing.T) {
	grace := 7 * time.Second
	const shown = "the-value-itself"
	cases := []struct {
		field   string // of the descriptor
		in      *iacpb.JobSpec
		want    sdk.JobSpec
		refused string // the field that the error names
	}{
		{field: "name", in: &iacpb.JobSpec{Name: "n"}, want: sdk.JobSpec{Name: "n"}},
		{field: "kind", in: &iacpb.JobSpec{Kind: "EPHEMERAL"}},
		{field: "kind", in: &iacpb.JobSpec{Kind: "PRE_DEPLOY"}, refused: "kind"},
		{field: "kind", in: &iacpb.JobSpec{Kind: "ephemeral"}, refused: "kind"},
		{field: "image", in: &iacpb.JobSpec{Image: "app:1"}, want: sdk.JobSpec{Image: "app:1"}},
		{field: "run_command", in: &iacpb.JobSpec{RunCommand: `echo "a  b" | wc`}, want: sdk.JobSpec{Entrypoint: sdk.Argv{"/bin/sh", "-c"}, Args: sdk.Argv{`echo "a  b" | wc`}}},
		{field: "env_vars", in: &iacpb.JobSpec{EnvVars: map[string]string{"A": "secret://env/A"}}, want: sdk.JobSpec{Env: sdk.Env{"A": "secret://env/A"}}},
		{field: "env_vars_secret", in: &iacpb.JobSpec{EnvVarsSecret: map[string]string{"A": "secret://env/A"}}, want: sdk.JobSpec{Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"}}},
		{field: "env_vars_secret", in: &iacpb.JobSpec{EnvVarsSecret: map[string]string{"A": shown}}, refused: "env_vars_secret"},
		{field: "cron", in: &iacpb.JobSpec{Cron: "* * * * *"}, refused: "cron"},
		{field: "termination", in: &iacpb.JobSpec{Termination: &iacpb.JobTerminationSpec{GracePeriodSeconds: 7}}, want: sdk.JobSpec{Grace: &grace}},
		{field: "termination", in: &iacpb.JobSpec{Termination: &iacpb.JobTerminationSpec{}}},
		{field: "termination", in: &iacpb.JobSpec{Termination: &iacpb.JobTerminationSpec{GracePeriodSeconds: -1}}, refused: "termination.grace_period_seconds"},
		{field: "termination", in: &iacpb.JobSpec{Termination: &iacpb.JobTerminationSpec{DrainSeconds: 1}}, refused: "termination.drain_seconds"},
		{field: "alerts", in: &iacpb.JobSpec{Alerts: []*iacpb.JobAlertSpec{{}}}, refused: "alerts"},
		{field: "log_destinations", in: &iacpb.JobSpec{LogDestinations: []*iacpb.JobLogDestinationSpec{{}}}, refused: "log_destinations"},
		{field: "target", in: &iacpb.JobSpec{Target: &iacpb.ResourceRef{}}, refused: "target"},
		{field: "timeout_seconds", in: &iacpb.JobSpec{TimeoutSeconds: 3600}, want: sdk.JobSpec{Timeout: time.Hour}},
		{field: "timeout_seconds", in: &iacpb.JobSpec{TimeoutSeconds: 3601}, refused: "timeout_seconds"},
		{field: "timeout_seconds", in: &iacpb.JobSpec{TimeoutSeconds: -1}, refused: "timeout_seconds"},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.field] = true
		got, err := jobSpec(c.in, native())
		if c.refused != "" {
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != c.refused || strings.Contains(err.Error(), shown) {
				t.Errorf("%s %v: got %v", c.field, c.in, err)
			}
			continue
		}
		c.want.V = sdk.SpecVersion
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %v: got %+v, %v, want %+v", c.field, c.in, got, err, c.want)
		}
	}
	fields := (&iacpb.JobSpec{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !seen[name] {
			t.Errorf("field %s is tried nowhere", name)
		}
	}
}

// TestJobSpecRefusesAtOnce names everything that is wrong, and what a newer host sets.
func TestJobSpecRefusesAtOnce(t *testing.T) {
	m := &iacpb.JobSpec{Kind: "SCHEDULED", Cron: "x", Alerts: []*iacpb.JobAlertSpec{{}}, TimeoutSeconds: 9999}
	_, err := jobSpec(m, native())
	for _, field := range []string{"kind", "cron", "alerts", "timeout_seconds"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s isn't named: %v", field, err)
		}
	}
	newer := &iacpb.JobSpec{}
	newer.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	nested := &iacpb.JobSpec{Termination: &iacpb.JobTerminationSpec{}}
	nested.Termination.ProtoReflect().SetUnknown(newer.ProtoReflect().GetUnknown())
	for _, m := range []*iacpb.JobSpec{newer, nested} {
		if _, err := jobSpec(m, native()); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("a field that isn't known: %v", err)
		}
	}
	if _, err := jobSpec(&iacpb.JobSpec{TimeoutSeconds: 1}, sdk.Guarantees{}); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("a time-out that nobody would keep: %v", err)
	}
}

// TestStatusReply tells every state, with and without an exit code.
func TestStatusReply(t *testing.T) {
	code := func(n int) *int { return &n }
	h := &iacpb.JobHandle{Id: "x"}
	for _, c := range []struct {
		in      sdk.JobStatusResult
		state   iacpb.JobState
		code    int32
		message string
	}{
		{sdk.JobStatusResult{State: sdk.StatePending}, iacpb.JobState_JOB_STATE_PENDING, 0, ""},
		{sdk.JobStatusResult{State: sdk.StatePending, Reason: sdk.ReasonQueued, Message: "no room"}, iacpb.JobState_JOB_STATE_PENDING, 0, "queued: no room"},
		{sdk.JobStatusResult{State: sdk.StateRunning}, iacpb.JobState_JOB_STATE_RUNNING, 0, ""},
		{sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: code(0)}, iacpb.JobState_JOB_STATE_SUCCEEDED, 0, "completed"},
		{sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted}, iacpb.JobState_JOB_STATE_SUCCEEDED, 0, "completed"},
		{sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: code(3)}, iacpb.JobState_JOB_STATE_FAILED, 3, "nonzero_exit"},
		{sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonImagePull, Message: "no such image"}, iacpb.JobState_JOB_STATE_FAILED, -1, "image_pull: no such image"},
		{sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonTimedOut, ExitCode: code(0)}, iacpb.JobState_JOB_STATE_FAILED, 0, "timed_out"},
		{sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled}, iacpb.JobState_JOB_STATE_CANCELLED, -1, "cancelled"},
		{sdk.JobStatusResult{State: sdk.StateUnknown, Reason: sdk.ReasonUnknown}, iacpb.JobState_JOB_STATE_UNSPECIFIED, 0, "unknown"},
		{sdk.JobStatusResult{State: sdk.StateLost, Reason: sdk.ReasonLost}, iacpb.JobState_JOB_STATE_FAILED, -1, "lost: the backend no longer knows the job, and its end was not seen"},
		{sdk.JobStatusResult{State: sdk.StateLost, Reason: sdk.ReasonSupervisorLost, Message: "gone"}, iacpb.JobState_JOB_STATE_FAILED, -1, "lost: supervisor_lost: gone"},
	} {
		got, err := statusReply(h, c.in)
		if err != nil || got.GetState() != c.state || got.GetExitCode() != c.code || got.GetMessage() != c.message || got.GetHandle() != h {
			t.Errorf("%+v came as %v, %v", c.in, got, err)
		}
	}
	for _, s := range sdk.JobStates() {
		got, err := statusReply(h, sdk.JobStatusResult{State: s})
		if err != nil || (got.GetState() == iacpb.JobState_JOB_STATE_UNSPECIFIED) != (s == sdk.StateUnknown) {
			t.Errorf("%s came as %v, %v", s, got, err)
		}
	}
	if _, err := statusReply(h, sdk.JobStatusResult{State: sdk.StateFailed, ExitCode: code(1 << 40)}); err == nil {
		t.Error("an exit code that doesn't fit was sent")
	}
}

// FuzzHandle reads handles of any kind: an error or a handle that is written as it came.
func FuzzHandle(f *testing.F) {
	f.Add("x", `{"id":"x","identity":{"kind":"fake"},"kind":"fake","v":1}`)
	f.Add("", "{")
	f.Fuzz(func(t *testing.T, id, text string) {
		h, err := decodeHandle(&iacpb.JobHandle{Id: id, Metadata: map[string]string{handleKey: text}})
		if err != nil {
			return
		}
		m, err := encodeHandle(h)
		if err != nil {
			t.Fatalf("%q was read and can't be written: %v", text, err)
		}
		if again, err := decodeHandle(m); err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%q became %+v, then %+v, %v", text, h, again, err)
		}
	})
}

// FuzzJobSpec reads messages of any kind: an error that is InvalidArgument, or a job
// that can be stored.
func FuzzJobSpec(f *testing.F) {
	for _, m := range []*iacpb.JobSpec{{}, {Name: "n", Kind: "EPHEMERAL", RunCommand: "x", TimeoutSeconds: 5}, {Cron: "x"},
		{EnvVarsSecret: map[string]string{"A": "secret://env/A"}, Termination: &iacpb.JobTerminationSpec{GracePeriodSeconds: 1}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &iacpb.JobSpec{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		s, err := jobSpec(m, native())
		if err != nil {
			if !errors.Is(err, sdk.InvalidArgument) {
				t.Errorf("%v: %v", m, err)
			}
			return
		}
		if _, err := s.Encode(); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	})
}
