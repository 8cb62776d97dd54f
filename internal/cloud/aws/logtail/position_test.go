package logtail

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestBadCursor: what is no cursor of ours is refused.
func TestBadCursor(t *testing.T) {
	for name, c := range map[string]sdk.LogCursor{
		"kind":    {V: 1, Kind: "docker"},
		"version": {V: sdk.CursorVersion + 1, Kind: "aws-x"},
		"part":    {V: 1, Kind: "aws-x", Position: map[string]string{"x": "1"}},
		"time":    {V: 1, Kind: "aws-x", Position: map[string]string{posTime: "soon"}},
		"minus":   {V: 1, Kind: "aws-x", Position: map[string]string{posSame: "-1"}},
	} {
		if at, err := readPosition("aws-x", &c); err == nil {
			t.Errorf("%s: taken as %+v", name, at)
		}
	}
}

// FuzzPosition: any cursor is read or refused, and what is read comes back.
func FuzzPosition(f *testing.F) {
	f.Add("f/1", "1700000000000", "3")
	f.Add("", "", "")
	f.Add("t", "-1", "x")
	f.Fuzz(func(t *testing.T, token, millis, same string) {
		c := sdk.LogCursor{V: sdk.CursorVersion, Kind: "aws-x", Position: map[string]string{posToken: token, posTime: millis, posSame: same}}
		at, err := readPosition("aws-x", &c)
		if err != nil {
			return
		}
		again, err := readPosition("aws-x", at.cursor("aws-x"))
		if err != nil || again.token != at.token || at.millis > 0 && (again.millis != at.millis || again.same != at.same) {
			t.Errorf("%+v comes back as %+v, %v", at, again, err)
		}
	})
}
