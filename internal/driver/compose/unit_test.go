package compose

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/windlass-run/windlass/sdk"
)

func TestLayer(t *testing.T) {
	for name, l := range map[string]layer{
		"settings": {config: map[string]string{"A": "$HOME ${X:-y} $$", "B": "two\n\"lines\"", "EMPTY": ""}, secrets: map[string]secretFile{}},
		"secrets":  {config: map[string]string{}, secrets: map[string]secretFile{"TOKEN": {Ref: "secret://env/TOKEN", File: "TOKEN.abc"}}},
		"made": {config: map[string]string{"A": "x"}, secrets: map[string]secretFile{"T": {Ref: "secret://file/t$x", File: "T.1"}},
			service: map[string]any{"image": "app:1", "environment": map[string]any{"K": "$v"}, "entrypoint": []any{"sh", "-c", "echo $K"}}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := l.encode("web", "/settings/web")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), layerFile)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readLayer(path)
			if err != nil {
				t.Fatal(err)
			}
			again, err := got.encode("web", "/settings/web")
			if err != nil || !bytes.Equal(data, again) {
				t.Errorf("read and written again, %v:\n%s\nbefore:\n%s", err, again, data)
			}
			if !maps.Equal(got.config, l.config) || !maps.Equal(got.secrets, l.secrets) || got.made() != l.made() || got.revision() != l.revision() {
				t.Errorf("got %+v, want %+v", got, l)
			}
		})
	}
}

// FuzzEscape: what is escaped has no dollar that Compose would act on, and comes
// back.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "${A}", "a$b$$c", "$$$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escapeText(s)
		if unescapeText(e) != s || strings.Contains(strings.ReplaceAll(e, "$$", ""), "$") {
			t.Errorf("%q is escaped as %q, which is read as %q", s, e, unescapeText(e))
		}
	})
}

func TestRevision(t *testing.T) {
	none := layer{}
	empty := layer{config: map[string]string{}, secrets: map[string]secretFile{}}
	one := layer{config: map[string]string{"A": "x"}}
	secret := layer{secrets: map[string]secretFile{"A": {Ref: "secret://env/A", File: "A.1"}}}
	if none.revision() != empty.revision() {
		t.Error("no settings have two revisions")
	}
	if r := []string{none.revision(), one.revision(), secret.revision()}; len(slices.Compact(slices.Sorted(slices.Values(r)))) != 3 {
		t.Errorf("different settings have the revisions %q", r)
	}
}

func exited(code int, policy container.RestartPolicyMode) instance {
	return instance{id: "x", state: container.StateExited, code: code, policy: policy, started: time.Unix(1, 0), finished: time.Unix(2, 0)}
}

// TestStopped: the engine doesn't keep who ended a container.
func TestStopped(t *testing.T) {
	ended := time.Unix(9, 0)
	stop := journal{Entries: []entry{{Verb: verbStop, Ended: &ended}}}
	running := instance{state: container.StateRunning}
	for name, c := range map[string]struct {
		list []instance
		j    journal
		want bool
	}{
		"nothing there":            {nil, stop, false},
		"one runs":                 {[]instance{running, exited(0, "")}, stop, false},
		"restarting":               {[]instance{{state: container.StateRestarting}}, journal{}, false},
		"clean ends":               {[]instance{exited(0, ""), exited(143, "no")}, journal{}, true},
		"killed by a stop":         {[]instance{exited(137, "")}, journal{}, true},
		"ended badly by itself":    {[]instance{exited(3, "")}, journal{}, false},
		"badly, behind our stop":   {[]instance{exited(3, "")}, stop, true},
		"badly, and not restarted": {[]instance{exited(3, container.RestartPolicyUnlessStopped)}, journal{}, true},
		"out of memory":            {[]instance{{state: container.StateExited, code: 137, oom: true}}, journal{}, false},
		"made, not started":        {[]instance{{state: container.StateCreated}}, journal{}, true},
		"couldn't be started":      {[]instance{{state: container.StateCreated, problem: "no such file"}}, journal{}, false},
	} {
		s := scene{name: "web", list: c.list, journal: c.j}
		if got := s.stopped(); got != c.want {
			t.Errorf("%s: stopped %t, want %t", name, got, c.want)
		}
	}
}

// TestStatusReasons: every reason is one of the table, and a workload that isn't
// served says so.
func TestStatusReasons(t *testing.T) {
	oom := exited(137, "")
	oom.oom = true
	for want, c := range map[sdk.Reason]instance{
		sdk.ReasonOOMKilled:     oom,
		sdk.ReasonNonzeroExit:   exited(3, ""),
		sdk.ReasonFailedToStart: {state: container.StateCreated, problem: "exec: \"nope\": executable file not found", started: time.Time{}},
	} {
		s := scene{name: "web", list: []instance{c}}
		st := s.status()
		if st.Failure == nil || st.Failure.Reason != want || st.Failure.Message == "" || st.Rollout != sdk.RolloutFailed || st.Instances[0].Reason != want {
			t.Errorf("%s: %+v, failure %+v", want, st, st.Failure)
		}
	}
	sick := instance{name: "w-1", state: container.StateRunning, health: container.Unhealthy, problem: "connection refused\n"}
	s := scene{name: "web", list: []instance{sick}}
	if st := s.status(); *st.Ready != 0 || st.Rollout != sdk.RolloutFailed || !strings.Contains(st.Instances[0].Message, "connection refused") {
		t.Errorf("unhealthy: %+v", st)
	}
	sick.health = container.Starting
	s.list = []instance{sick}
	if st := s.status(); st.Rollout != sdk.RolloutProgressing {
		t.Errorf("health starting: %s", st.Rollout)
	}
	s.list = []instance{{id: "1", state: container.StateRunning, hash: "a", started: time.Unix(1, 0)}, {id: "2", state: container.StateRunning, hash: "b", started: time.Unix(2, 0)}}
	if st := s.status(); *st.Updated != 1 || st.Rollout == sdk.RolloutComplete || len(st.Warnings) == 0 {
		t.Errorf("of two configurations: %+v", st)
	}
}

// TestCrashLoop: what the engine starts again and again is not rolled out, and says
// with which code it ends; once it has stayed up it is.
func TestCrashLoop(t *testing.T) {
	three, zero := 3, 0
	back := func(restarts int, up time.Duration, last *int) instance {
		return instance{name: "web-1", state: container.StateRunning, policy: container.RestartPolicyAlways, restarts: restarts, up: up, last: last}
	}
	waiting := instance{name: "web-1", state: container.StateRestarting, code: 3, restarts: 4}
	healthy := back(5, time.Second, nil)
	healthy.health = container.Healthy
	for name, c := range map[string]struct {
		c       instance
		rollout sdk.RolloutState
		reason  sdk.Reason
		says    string
	}{
		"about to be started again": {waiting, sdk.RolloutFailed, sdk.ReasonNonzeroExit, "it ended with code 3, and was started again 4 times"},
		"just started again":        {back(4, time.Second, &three), sdk.RolloutFailed, sdk.ReasonNonzeroExit, "it ended with code 3, and was started again 4 times"},
		"its code isn't known":      {back(4, time.Second, nil), sdk.RolloutFailed, sdk.ReasonUnknown, "it ended, and was started again 4 times"},
		"it ends well":              {back(4, time.Second, &zero), sdk.RolloutFailed, sdk.ReasonCompleted, "it ended with code 0, and was started again 4 times"},
		"once":                      {back(1, time.Second, &three), sdk.RolloutProgressing, sdk.ReasonNonzeroExit, "it ended with code 3, and was started again 1 time"},
		"long ago":                  {back(4, steady, nil), sdk.RolloutComplete, "", ""},
		"its health is checked":     {healthy, sdk.RolloutComplete, "", ""},
	} {
		s := scene{name: "web", list: []instance{c.c}}
		st := s.status()
		if in := st.Instances[0]; st.Rollout != c.rollout || in.Ready != (c.reason == "") || in.Reason != c.reason || in.Message != c.says || (st.Failure != nil) != (c.reason != "") {
			t.Errorf("%s: %s, %+v, failure %+v", name, st.Rollout, in, st.Failure)
		}
	}
}

// TestGeneration: the engine's own restarts leave it, everything else changes it.
func TestGeneration(t *testing.T) {
	s := scene{list: []instance{{id: "1", hash: "a", state: container.StateRunning}, {id: "2", hash: "a", state: container.StateRunning}}}
	first := s.generation()
	s.list[0].restarts, s.list[0].started = 3, time.Unix(9, 0)
	slices.Reverse(s.list)
	if s.generation() != first {
		t.Error("a restart by the engine, or another order, made another generation")
	}
	seen := map[string]bool{first: true}
	for name, change := range map[string]func(*scene){
		"another configuration": func(s *scene) { s.list[0].hash = "b" },
		"another container":     func(s *scene) { s.list[0].id = "3" },
		"one fewer":             func(s *scene) { s.list = s.list[1:] },
		"an operation":          func(s *scene) { s.journal.Entries = []entry{{Op: sdk.ID{15: 1}}} },
		"a stop": func(s *scene) {
			for i := range s.list {
				s.list[i].state = container.StateExited
			}
		},
	} {
		c := s
		c.list = slices.Clone(s.list)
		change(&c)
		if g := c.generation(); seen[g] {
			t.Errorf("%s: generation %s again", name, g)
		} else {
			seen[g] = true
		}
	}
}

func TestMost(t *testing.T) {
	port := func(p ...string) service {
		var s service
		for _, x := range p {
			s.Ports = append(s.Ports, publishedPort{x})
		}
		return s
	}
	for name, c := range map[string]struct {
		s    service
		want int
	}{
		"free":           {service{}, 0},
		"named":          {service{ContainerName: "one"}, 1},
		"a fixed port":   {port("8080"), 1},
		"any port":       {port("", "0"), 0},
		"a range":        {port("8080-8083"), 4},
		"the least":      {port("8080-8083", "9000-9001"), 2},
		"a wrong range":  {port("8083-8080"), 1},
		"not even ports": {port("a-b"), 1},
	} {
		if n, why := c.s.most(); n != c.want || (n > 0) != (why != "") {
			t.Errorf("%s: %d (%s), want %d", name, n, why, c.want)
		}
	}
}

func TestReplicas(t *testing.T) {
	for text, want := range map[string]int{`{}`: 1, `{"scale":2}`: 2, `{"deploy":{"replicas":3}}`: 3, `{"deploy":{"replicas":0}}`: 0} {
		var s service
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.replicas() != want {
			t.Errorf("%s: %d, %v; want %d", text, s.replicas(), err, want)
		}
	}
}

func TestReports(t *testing.T) {
	const text = `{"id":"Network p_default","status":"Working","text":"Creating"}
{"id":"Volume \"p_data\"","text":"Creating"}
{"id":"Container p-web-1","status":"Working","text":"Recreate"}
{"id":"Container p-web-2","status":"Done","text":"Running"}
{"level":"warning","msg":"a word"}

not JSON
{"error":true,"message":"Error response from daemon:\n no such image"}
`
	rs := parseReports(strings.NewReader(text))
	if got := objects(rs, "Container", "Recreate"); !slices.Equal(got, []string{"p-web-1"}) {
		t.Errorf("recreated: %q", got)
	}
	if got := append(objects(rs, "Network", "Creating"), objects(rs, "Volume", "Creating")...); !slices.Equal(got, []string{"p_default", "p_data"}) {
		t.Errorf("made: %q", got)
	}
	if got := failure(rs); got != "Error response from daemon: no such image" {
		t.Errorf("failure: %q", got)
	}
	if got := failure(parseReports(strings.NewReader("open x: no such file\n"))); got != "open x: no such file" {
		t.Errorf("plain failure: %q", got)
	}
}

func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"id":"Container a","text":"Recreate"}` + "\n{}\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rs := parseReports(bytes.NewReader(data))
		objects(rs, "Container", "Recreate")
		if w := failure(rs); len(w) > maxWords+len("…") || strings.ContainsAny(w, "\n\r") {
			t.Errorf("an error of %d bytes: %q", len(w), w)
		}
	})
}

func frame(stream byte, text string) []byte {
	h := make([]byte, frameHeader, frameHeader+len(text))
	h[0] = stream
	binary.BigEndian.PutUint32(h[4:], uint32(len(text)))
	return append(h, text...)
}

const at = "2026-11-28T10:00:00.000000001Z "

func TestRecords(t *testing.T) {
	in := bufio.NewReader(bytes.NewReader(slices.Concat(frame(1, at+"out\n"), frame(2, at+"err \xff\n"), frame(1, at))))
	for _, want := range []record{{sdk.StreamStdout, time.Time{}, []byte("out\n")}, {sdk.StreamStderr, time.Time{}, []byte("err \xff\n")}, {sdk.StreamStdout, time.Time{}, nil}} {
		r, err := readRecord(in, false)
		if err != nil || r.stream != want.stream || !bytes.Equal(r.data, want.data) || r.stamp.Nanosecond() != 1 {
			t.Errorf("got %+v, %v; want %+v", r, err, want)
		}
	}
	if _, err := readRecord(in, false); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	tty := bufio.NewReader(strings.NewReader(at + "a line\r\n" + at + "a part"))
	for _, want := range []string{"a line\r\n", "a part"} {
		if r, err := readRecord(tty, true); err != nil || string(r.data) != want || r.stream != sdk.StreamCombined {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	for name, data := range map[string][]byte{"no stamp": frame(1, "text"), "another stream": frame(7, at), "no header": []byte("12345678"), "the engine's word": frame(3, "no logs")} {
		if _, err := readRecord(bufio.NewReader(bytes.NewReader(data)), false); !errors.Is(err, errForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readRecord(bufio.NewReader(bytes.NewReader(frame(1, at)[:12])), false); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(frame(1, at+"x\n"), false)
	f.Add([]byte(at+"x\n"), true)
	f.Fuzz(func(_ *testing.T, data []byte, terminal bool) {
		in := bufio.NewReader(bytes.NewReader(data))
		for {
			if _, err := readRecord(in, terminal); err != nil {
				return
			}
		}
	})
}

// TestPosition: a log that is read again from where it stood gives nothing twice
// and leaves nothing out.
func TestPosition(t *testing.T) {
	var all []record
	for _, ns := range []int64{1, 1, 2, 2, 2, 3} {
		all = append(all, record{stamp: time.Unix(0, ns)})
	}
	for cut := range len(all) + 1 {
		var pos position
		for _, r := range all[:cut] {
			pos.took(r)
		}
		s, rest := skipper{to: pos}, 0
		for _, r := range all {
			if !s.skip(r) {
				rest++
			}
		}
		if rest != len(all)-cut {
			t.Errorf("after %d of %d records %d more are given", cut, len(all), rest)
		}
	}
}

func sample(at int64, total uint64) container.StatsResponse {
	x := container.StatsResponse{Read: time.Unix(at, 0)}
	x.CPUStats.CPUUsage.TotalUsage = total
	x.MemoryStats = container.MemoryStats{Usage: 1000, Stats: map[string]uint64{"inactive_file": 400}}
	return x
}

// TestF102FirstSample: what the engine says first has zeros for what needs two
// samples. It is no sample.
func TestF102FirstSample(t *testing.T) {
	m := meter{}
	it, ok := m.next(sample(10, 5e9))
	if !ok || it.Warming == "" || it.Sample != nil {
		t.Errorf("the first sample gives %+v", it)
	}
	it, ok = m.next(sample(12, 6e9))
	if !ok || it.Sample == nil || *it.Sample.CPU != 500 || *it.Sample.Memory != 600 || it.Sample.Received != nil {
		t.Errorf("the second gives %+v", it)
	}
	// It stopped, and was started again: its counters begin anew.
	if it, ok = m.next(container.StatsResponse{}); !ok || it.Warming != warmStopped {
		t.Errorf("stopped: %+v", it)
	}
	if _, ok = m.next(container.StatsResponse{}); ok {
		t.Error("it says twice that it is stopped")
	}
	if it, ok = m.next(sample(20, 1e9)); !ok || it.Warming != warmFirst {
		t.Errorf("started again: %+v", it)
	}
	if it, ok = m.next(sample(21, 5e8)); !ok && it.Sample != nil {
		t.Errorf("a counter that went back: %+v", it)
	}
	slow := meter{interval: 10 * time.Second}
	slow.next(sample(0, 0))
	slow.next(sample(1, 1))
	if _, ok := slow.next(sample(5, 1e9)); ok {
		t.Error("a sample before its interval")
	}
	if it, ok := slow.next(sample(11, 2e9)); !ok || it.Sample == nil {
		t.Errorf("after the interval: %+v", it)
	}
}

func TestJournalForgets(t *testing.T) {
	ids := sdk.NewIDSource(sdk.SystemClock())
	old, j := ids.NewID(), journal{V: journalVersion}
	for range kept + 3 {
		j.add(entry{Op: ids.NewID()})
	}
	if len(j.Entries) != kept {
		t.Fatalf("%d entries", len(j.Entries))
	}
	if !j.forgot(sdk.ID{}) || (&journal{}).forgot(old) {
		t.Error("whether an operation is older than all entries isn't told")
	}
}
