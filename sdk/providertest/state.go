package providertest

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func noCode(g sdk.Guarantees) string {
	if g.ExitCode == sdk.ExitCodeAbsent {
		return "ExitCode"
	}
	return ""
}

func stateChecks() []Check {
	return []Check{
		{Name: "exit-codes", Doc: "Every exit code is reported as it is, and decides the state.", Waivable: noCode, run: checkExitCodes},
		{Name: "exit-code-evidence", Doc: "No exit code comes before the end, or from a backend that has none.", run: checkExitEvidence},
		{Name: "state-order", Doc: "States and reasons are legal and go forward only.", run: checkStateOrder},
		{Name: "terminal-final", Doc: "What is said about an ended job stays the same.", run: checkTerminal},
		{Name: "times", Doc: "Times are plausible and in order.", run: checkTimes},
		{Name: "status-no-side-effects", Doc: "Asking for the state changes nothing.", run: checkStatusPure},
		{Name: "signal", Doc: "A death by signal is a failure; a signal is named only on evidence.", Waivable: noCode, run: checkSignal},
		{Name: "oom", Doc: "A kill for memory is reported as such.", run: checkOOM},
		{Name: "oom-child", Doc: "A child's kill for memory is reported beside success.", run: checkOOMChild},
		{Name: "deadline", Doc: "A native deadline ends the job without us.", run: checkDeadline},
	}
}

// exitCodes are codes that backends are known to treat in ways of their own.
func exitCodes() []int {
	return []int{0, 1, 2, 3, 7, 125, 126, 127, 128, 129, 130, 137, 139, 143, 254, 255}
}

func checkExitCodes(s *suite, t T) {
	jobs := map[int]job{}
	for _, code := range exitCodes() {
		jobs[code] = s.start(t, Do(Exit(code)))
	}
	for code, j := range jobs {
		st := s.ended(t, j.handle)
		if st.ExitCode == nil {
			t.Errorf("exit %d: no code is reported (%s: %s)", code, st.State, st.Message)
			continue
		}
		if *st.ExitCode != code {
			t.Errorf("exit %d is reported as %d", code, *st.ExitCode)
		}
		state, reason := sdk.StateFailed, sdk.ReasonNonzeroExit
		if code == 0 {
			state, reason = sdk.StateSucceeded, sdk.ReasonCompleted
		}
		if st.State != state || st.Reason != reason || st.Signal != "" || st.OOMObserved {
			t.Errorf("exit %d: the job is %s: %s, signal %q, OOM %t; want %s: %s and neither", code, st.State, st.Reason, st.Signal, st.OOMObserved, state, reason)
		}
	}
}

func checkExitEvidence(s *suite, t T) {
	j := s.start(t, Do(Sleep(s.h.Second), Exit(0)))
	s.eventually(t, "end of the job", func() bool {
		st := s.status(t, j.handle)
		if !st.State.Terminal() && st.ExitCode != nil {
			t.Fatalf("a job that is %s has the exit code %d", st.State, *st.ExitCode)
		}
		if s.g.ExitCode == sdk.ExitCodeAbsent && st.ExitCode != nil {
			t.Fatalf("an exit code came from a backend that declares none: %d", *st.ExitCode)
		}
		if st.ExitCode != nil && *st.ExitCode == 0 && st.State == sdk.StateFailed {
			t.Fatalf("code 0 of a job that failed: %s", st.Reason)
		}
		return st.State.Terminal()
	})
}

// rank orders states; unknown stands nowhere.
func rank(st sdk.JobState) int {
	switch {
	case st == sdk.StatePending:
		return 1
	case st == sdk.StateRunning:
		return 2
	case st.Terminal():
		return 3
	}
	return 0
}

func checkStateOrder(s *suite, t T) {
	for _, b := range []Behaviour{Do(Sleep(s.h.Second)), Do(Sleep(s.h.Second/2), Exit(3))} {
		j := s.start(t, b)
		last := sdk.JobStatusResult{}
		s.eventually(t, "end of the job", func() bool {
			st := s.status(t, j.handle)
			if !st.State.Valid() || !sdk.LegalReason(st.State, st.Reason) {
				t.Fatalf("state %q with reason %q is not legal", st.State, st.Reason)
			}
			if r := rank(st.State); r > 0 && r < rank(last.State) {
				t.Fatalf("the state went back from %s to %s", last.State, st.State)
			}
			if st.State == sdk.StateCancelled || st.State == sdk.StateLost {
				t.Fatalf("a job that ran undisturbed is %s: %s", st.State, st.Reason)
			}
			if rank(st.State) > 0 {
				last = st
			}
			return st.State.Terminal()
		})
	}
}

func checkTerminal(s *suite, t T) {
	j := s.start(t, Do(Print("x\n"), Exit(3)))
	first := s.ended(t, j.handle)
	other := need(s.reopen(t), sdk.Runner())
	for i := range 5 {
		again, err := s.ask(t.Context(), j.handle)
		if i%2 == 1 {
			again, err = other.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: j.handle})
		}
		if err != nil {
			t.Fatalf("status: %v", err)
		}
		if a, b := essence(first), essence(again); a != b {
			t.Fatalf("an ended job changed from %s to %s", a, b)
		}
		s.pause(t)
	}
}

// essence is what must not change about an ended job.
func essence(st sdk.JobStatusResult) string {
	code := "none"
	if st.ExitCode != nil {
		code = fmt.Sprint(*st.ExitCode)
	}
	return fmt.Sprintf("%s (%s), code %s, signal %q, started %s, ended %s, launches %d, OOM %t", st.State, st.Reason, code, st.Signal,
		st.StartedAt.UTC().Format(time.RFC3339Nano), st.EndedAt.UTC().Format(time.RFC3339Nano), st.Launches, st.OOMObserved)
}

// skew is how far a backend's clock may be from ours.
const skew = 5 * time.Minute

func checkTimes(s *suite, t T) {
	j := s.start(t, Do(Sleep(s.h.Second/2)))
	st := s.ended(t, j.handle)
	now := time.Now()
	times := []struct {
		name string
		at   time.Time
	}{{"created", st.CreatedAt}, {"started", st.StartedAt}, {"ended", st.EndedAt}}
	last := times[0]
	for _, x := range times {
		if x.at.IsZero() {
			continue
		}
		if x.at.Before(j.sent.Add(-skew)) || x.at.After(now.Add(skew)) {
			t.Errorf("%s at %s, but the job was sent at %s and seen ended at %s", x.name, x.at, j.sent, now)
		}
		if x.at.Before(last.at) {
			t.Errorf("%s at %s, before it was %s at %s", x.name, x.at, last.name, last.at)
		}
		last = x
	}
	if !st.StartedAt.IsZero() && !st.EndedAt.IsZero() && st.EndedAt.Sub(st.StartedAt) > now.Sub(j.sent)+2*time.Second {
		t.Errorf("it ran for %s by its times, and %s passed altogether", st.EndedAt.Sub(st.StartedAt), now.Sub(j.sent))
	}
}

func checkStatusPure(s *suite, t T) {
	key := s.ids.NewID().String()
	j := s.start(t, Do(Mark(key), Sleep(s.h.Second/2)))
	for range 10 {
		s.status(t, j.handle)
	}
	if st := s.ended(t, j.handle); st.State != sdk.StateSucceeded {
		t.Errorf("a job that was only looked at is %s: %s", st.State, st.Reason)
	}
	if n := s.h.Marks(t, key); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
	if f, ok := sdk.Of(s.p, sdk.Finder()); ok && s.g.Submit.By != sdk.SubmitByNothing {
		found, err := f.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: j.launch.RunID})
		if err != nil {
			t.Fatalf("find: %v", err)
		}
		if len(found.Jobs) > 1 {
			t.Errorf("%d jobs are there after asking for the state", len(found.Jobs))
		}
	}
}

func checkSignal(s *suite, t T) {
	j := s.start(t, Do(Step{Do: ActSignal, Name: "SIGKILL"}))
	st := s.ended(t, j.handle)
	switch {
	case st.State == sdk.StateFailed && st.Reason == sdk.ReasonSignaled && st.Signal == "SIGKILL" && (st.ExitCode == nil || *st.ExitCode == 137):
	case st.State == sdk.StateFailed && st.Reason == sdk.ReasonNonzeroExit && st.Signal == "" && st.ExitCode != nil && *st.ExitCode == 137:
	default:
		t.Errorf("got %s; want failed: signaled with SIGKILL, or nonzero_exit with 137 and no signal named", essence(st))
	}
}

// memoryLimit is enough for a shell, and soon used up.
const memoryLimit = 64 << 20

// memoryTries is how many jobs may be killed for memory until one is reported so:
// a runtime drops the kernel's notice when the group is gone before it is read.
const memoryTries = 3

func checkOOM(s *suite, t T) {
	var st sdk.JobStatusResult
	for range memoryTries {
		spec := s.spec(t, Do(Print("x\n"), Step{Do: ActMemory}))
		spec.Memory = cmp.Or(s.h.Memory, memoryLimit)
		j, refused := s.startOrRefused(t, spec, "memory")
		if refused != nil {
			t.Skipf("refused: %s", sdk.JoinProblems(refused))
		}
		st = s.ended(t, j.handle)
		if st.OOMObserved || st.Reason != sdk.ReasonNonzeroExit || st.ExitCode == nil || *st.ExitCode != 137 {
			break
		}
	}
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonOOMKilled || !st.OOMObserved {
		t.Errorf("got %s; want failed: oom_killed, OOM observed", essence(st))
	}
	if st.ExitCode != nil && *st.ExitCode == 0 {
		t.Errorf("code 0 of a job that was killed for memory")
	}
}

func checkOOMChild(s *suite, t T) {
	spec := s.spec(t, Do(Step{Do: ActChildMemory}, Exit(0)))
	spec.Memory = cmp.Or(s.h.Memory, memoryLimit)
	j, refused := s.startOrRefused(t, spec, "memory")
	if refused != nil {
		t.Skipf("refused: %s", sdk.JoinProblems(refused))
	}
	st := s.ended(t, j.handle)
	if st.State != sdk.StateSucceeded || st.Reason != sdk.ReasonCompleted || !st.OOMObserved {
		t.Errorf("got %s; want succeeded: completed, OOM observed", essence(st))
	}
}

func checkDeadline(s *suite, t T) {
	if !s.g.Deadline.Native {
		t.Skipf("the backend has no deadline of its own")
	}
	spec := s.spec(t, Do(Hang()))
	spec.Timeout = max(s.h.Second, s.g.Deadline.Min)
	l := s.prepare(t, spec)
	if l.NativeDeadline < spec.Timeout {
		t.Fatalf("the native deadline %s is shorter than the time-out %s", l.NativeDeadline, spec.Timeout)
	}
	if l.NativeDeadline > s.h.Eventually/2 {
		t.Skipf("the native deadline is %s, too long for a test", l.NativeDeadline)
	}
	j := s.startLaunch(t, l, nil)
	st := s.ended(t, j.handle)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut {
		t.Errorf("got %s; want failed: timed_out", essence(st))
	}
	if !reflect.DeepEqual(st.StartedAt, time.Time{}) && st.EndedAt.Sub(st.StartedAt) < spec.Timeout-s.h.Second/10 {
		t.Errorf("ended after %s, before the time-out %s", st.EndedAt.Sub(st.StartedAt), spec.Timeout)
	}
}
