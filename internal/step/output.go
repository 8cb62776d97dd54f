package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// What is kept of a step's output for templates. It all is shown as it comes,
// whatever its size, and a run's is in the ledger's logs.
const (
	// MaxKept is the most bytes of one stream of one step.
	MaxKept = 1 << 20
	// MaxKeptFile is the most bytes of all steps of a file together.
	MaxKeptFile = 64 << 20
)

// Output is what a step gives out.
type Output struct {
	// Step is its name, Env where it ran.
	Step, Env string
	sandbox.Result
	// Ended is whether there is a Result: a step that was refused, or whose
	// outcome isn't known, has none.
	Ended bool
	// Forgiven: the command ran and failed, and fail_on_error let the file go on.
	// That forgives no job that didn't start, and nothing whose end isn't proven.
	Forgiven bool

	stdout, stderr kept
	// combined: the backend keeps both streams together, as stdout.
	combined bool
}

// kept is the beginning of a stream.
type kept struct {
	data []byte
	// cut: there was more.
	cut bool
}

// budget is what may still be kept.
type budget struct{ left int }

func (k *kept) add(b *budget, data []byte) {
	if k.cut {
		return
	}
	n := min(len(data), MaxKept-len(k.data), b.left)
	k.data = append(k.data, data[:n]...)
	b.left -= n
	k.cut = n < len(data)
}

// Outputs describes what a step gives out to templates.
func Outputs() [][2]string {
	return [][2]string{
		{"exit_code", "the command's own exit code, a number; null when none is known"},
		{"stdout", "what it wrote there, and to stderr too where the backend keeps both as one; null when a part is missing"},
		{"stderr", "what it wrote there; null where the backend keeps both as one, and when a part is missing"},
		{"run_id", "the ID of its run; null on a remote runner"},
		{"state", "succeeded or failed"},
		{"reason", "why it is in that state (docs/states.md); null on a remote runner"},
		{"verdict", "how much of its output is there, such as complete; null on a remote runner"},
		{"duration", "from its start to the proof of its end, such as 1.5s"},
	}
}

func outputKeys() []string {
	var out []string
	for _, x := range Outputs() {
		out = append(out, x[0])
	}
	return out
}

// Verdict says how much of the output templates have: the run's own verdict, or
// truncated_by_us where a stream is longer than what is kept. It is empty where
// the environment has none, and nothing was cut.
func (o *Output) Verdict() sdk.Verdict {
	v := o.Result.Verdict
	if o.stdout.cut || o.stderr.cut {
		v = v.Worse(sdk.VerdictTruncatedByUs)
	}
	return v
}

// values are what templates see. What isn't known, and a stream of which a part
// is missing, is left out, so that using it is an error.
func (o *Output) values() map[string]any {
	v := map[string]any{"state": string(o.State), "duration": o.Duration.Round(time.Millisecond).String()}
	if o.ExitCode != nil {
		v["exit_code"] = *o.ExitCode
	}
	if !o.RunID.IsZero() {
		v["run_id"] = o.RunID.String()
	}
	if o.Reason != "" {
		v["reason"] = string(o.Reason)
	}
	if x := o.Verdict(); x != "" {
		v["verdict"] = string(x)
	}
	if !o.stdout.cut && !o.Partial {
		v["stdout"] = string(o.stdout.data)
	}
	if !o.stderr.cut && !o.combined && !o.Partial {
		v["stderr"] = string(o.stderr.data)
	}
	return v
}

// absent says why a key is missing; empty for one that isn't.
func (o *Output) absent(key string) string {
	if _, ok := o.values()[key]; ok || !slices.Contains(outputKeys(), key) {
		return ""
	}
	logs := ""
	if !o.RunID.IsZero() {
		logs = "; windlass logs " + o.RunID.Short() + " has it all"
	}
	switch {
	case key == "stdout" && o.stdout.cut, key == "stderr" && o.stderr.cut:
		return fmt.Sprintf("%s of step %s is longer than the %d MiB that templates may use (%d MiB for all steps)%s", key, o.Step, MaxKept>>20, MaxKeptFile>>20, logs)
	case key == "stderr" && o.combined:
		return oneStream(o.Step, o.Env)
	case key == "stdout", key == "stderr":
		logs = strings.Replace(logs, "has it all", "has what was kept", 1)
		return fmt.Sprintf("%s of step %s is null: a part of its output is missing (%s), and half of one would look like a whole one%s", key, o.Step, cmp.Or(o.Verdict(), sdk.VerdictGap), logs)
	case key == "exit_code":
		how := string(o.State)
		if o.Reason != "" {
			how += " (" + string(o.Reason) + ")"
		}
		return fmt.Sprintf("exit_code of step %s is null: it ended as %s, and %s gave no exit code%s", o.Step, how, o.Env, askFirst(o.Step, key))
	}
	return fmt.Sprintf("%s of step %s is null: %s doesn't tell it, as its record is kept by the runner%s", key, o.Step, o.Env, askFirst(o.Step, key))
}

// askFirst is the template that goes on without a value.
func askFirst(step, key string) string {
	return fmt.Sprintf("; {{ if has (index .steps %q) %q }} asks first", step, key)
}

// oneStream is why a step has no stderr of its own.
func oneStream(step, env string) string {
	return fmt.Sprintf("stderr of step %s is null: %s keeps stdout and stderr as one, which is its stdout: use that", step, env)
}

func valuesOf(outputs map[string]*Output) map[string]any {
	v := map[string]any{}
	for name, o := range outputs {
		v[name] = o.values()
	}
	return v
}
