package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// viewAsked shows what a row other than a run's asked for: its record with the
// values redacted, and commands as text. What can't be read is nil.
func viewAsked(spec []byte) map[string]any {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(ledger.RedactSpec(spec)))
	d.UseNumber() // a size isn't to be shown as a float
	if d.Decode(&m) != nil {
		return nil
	}
	var words struct {
		Command    sdk.Argv `json:"command"`
		Deployment struct {
			Command sdk.Argv `json:"command"`
			Health  struct {
				Command sdk.Argv `json:"command"`
			} `json:"health"`
		} `json:"deployment"`
	}
	if json.Unmarshal(spec, &words) != nil {
		return m
	}
	showCommand(m, words.Command)
	if deployment, ok := m["deployment"].(map[string]any); ok {
		showCommand(deployment, words.Deployment.Command)
		if health, ok := deployment["health"].(map[string]any); ok {
			showCommand(health, words.Deployment.Health.Command)
		}
	}
	return m
}

func showCommand(m map[string]any, argv sdk.Argv) {
	if argv != nil {
		m["command"] = []string(argv)
	}
}

// addAsked prints what a row other than a run's asked for, a member a line.
func addAsked(t *fields, r ledger.Run) {
	t.add("Action", strings.TrimSpace(r.Action+" "+r.Target))
	asked := viewAsked(r.Spec)
	for _, k := range sortedKeys(asked) {
		if k != "v" {
			addMember(t, "Asked", k, asked[k])
		}
	}
	before := viewBefore(r)
	for _, k := range sortedKeys(before) {
		addMember(t, "Before", k, before[k])
	}
}

// viewBefore shows how the workload was that a row changed, as it was read before
// the change was made; nil where it wasn't read.
func viewBefore(r ledger.Run) map[string]any {
	var set struct {
		Before map[string]any `json:"before"`
	}
	d := json.NewDecoder(bytes.NewReader(r.Settings))
	d.UseNumber()
	if !strings.HasPrefix(r.Action, "svc.") || d.Decode(&set) != nil {
		return nil
	}
	return set.Before
}

// viewOutcome shows what the row of a change says that it came to; nil where it says
// nothing.
func viewOutcome(ctx context.Context, store ledger.Store, id sdk.ID) (map[string]any, error) {
	var came map[string]any
	for ev, err := range store.Events(ctx, ledger.EventFilter{Run: id, Kinds: []ledger.Kind{ledger.KindFinished}}) {
		if err != nil {
			return nil, err
		}
		var c ledger.Change
		if err := json.Unmarshal(ev.Change, &c); err != nil {
			return nil, fmt.Errorf("read event %d: %w", ev.Seq, err)
		}
		for k, v := range c.Detail {
			if v == "" {
				continue
			}
			if came == nil {
				came = map[string]any{}
			}
			came[k] = v
			if k == "outputs" {
				came[k] = viewOutputs(v)
			}
		}
	}
	return came, nil
}

// viewOutputs shows a resource's outputs, which are JSON of any kind.
func viewOutputs(text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	return v
}

// addMember prints a member of a record, and those within it by their path.
func addMember(t *fields, label, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			addMember(t, label, path+"."+k, v[k])
		}
	case []any:
		for i, x := range v {
			addMember(t, label, path+"."+strconv.Itoa(i), x)
		}
	case []string:
		words := make([]string, len(v))
		for i, w := range v {
			words[i] = quoteArg(w)
		}
		t.add(label, path+": "+strings.Join(words, " "))
	case nil:
	default:
		t.add(label, path+": "+fmt.Sprint(v))
	}
}

// nextForAction are the commands that make sense for a row other than a run's.
func nextForAction(r ledger.Run) []string {
	switch {
	case strings.HasPrefix(r.Action, "svc."):
		return []string{"windlass svc status " + r.Target}
	case strings.HasPrefix(r.Action, "resource."):
		return []string{"windlass ledger log --target " + quoteArg(r.Target), "windlass resource diff -f FILE " + quoteArg(r.Name)}
	}
	return nil
}
