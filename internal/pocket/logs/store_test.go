package logs

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestInsert keeps events in the order of their times, and of their arrival
// where those are the same.
func TestInsert(t *testing.T) {
	st := &stream{}
	now := time.UnixMilli(1_000_000)
	for i, at := range []int64{5, 3, 5, 9, 1, 3} {
		st.add(time.UnixMilli(at), now, string(rune('a'+i)), Knobs{})
	}
	var got []string
	for _, e := range st.Events {
		got = append(got, e.Text)
	}
	if !slices.Equal(got, []string{"e", "b", "f", "a", "c", "d"}) {
		t.Errorf("events in the order %v", got)
	}
}

// TestGroupName takes names and ARNs, with or without the end for streams, of
// this account and region.
func TestGroupName(t *testing.T) {
	s, err := New(Options{Account: "1", Region: "r", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"plain": "plain", "arn:aws:logs:r:1:log-group:/a/b": "/a/b", "arn:aws:logs:r:1:log-group:g:*": "g", "arn:aws:logs:x:1:log-group:g": ""} {
		got, err := s.groupName(nil, &id)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s names %q, %v", id, got, err)
		}
	}
	if got, err := s.groupName(new("n"), nil); got != "n" || err != nil {
		t.Errorf("a name is %q, %v", got, err)
	}
}
