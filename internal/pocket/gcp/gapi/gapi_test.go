package gapi

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPage cuts pages whose items come and go meanwhile.
func TestPage(t *testing.T) {
	self := func(s string) string { return s }
	page, next, err := Page([]string{"a", "c", "e"}, self, 2, "", "q")
	if err != nil || strings.Join(page, "") != "ac" || next == "" {
		t.Fatal(page, next, err)
	}
	page, last, err := Page([]string{"a", "b", "d", "e", "f"}, self, 2, next, "q")
	if err != nil || strings.Join(page, "") != "de" || last == "" {
		t.Errorf("the second page is %v, %q, %v", page, last, err)
	}
	page, end, err := Page([]string{"f"}, self, 2, last, "q")
	if err != nil || strings.Join(page, "") != "f" || end != "" {
		t.Errorf("the last page is %v, %q, %v", page, end, err)
	}
	for name, token := range map[string]string{"of another query": MakeToken("a", Query("r")), "no base64": "%", "no JSON": "eA"} {
		if _, _, err := Page([]string{"a"}, self, 2, token, "q"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a token %s: %v", name, err)
		}
	}
}

// TestLegalLabel tells legal labels from others.
func TestLegalLabel(t *testing.T) {
	for label, want := range map[[2]string]bool{
		{"a", ""}: true, {"a-1_b", "-1_b"}: true, {"ä", "日本"}: true, {strings.Repeat("a", 63), strings.Repeat("1", 63)}: true,
		{"", "v"}: false, {"1a", "v"}: false, {"-a", "v"}: false, {"A", "v"}: false, {"a", "V"}: false, {"a.b", "v"}: false, {"a", "v w"}: false,
		{strings.Repeat("a", 64), "v"}: false, {"a", strings.Repeat("1", 64)}: false, {"a\xff", "v"}: false,
	} {
		if got := LegalLabel(label[0], label[1]); got != want {
			t.Errorf("%q=%q: %t", label[0], label[1], got)
		}
	}
}

// TestRefuse gives refusals their rule, code and details.
func TestRefuse(t *testing.T) {
	table := Table{{ID: "r", Code: codes.NotFound}, {ID: "fine"}}
	err := table.Invalid("r", "a.b", "%d", 7)
	if RuleOf(err) != "r" || status.Code(err) != codes.NotFound || err.Error() != "NotFound: Violation in a.b: 7" || len(err.GRPCStatus().Details()) != 1 {
		t.Errorf("the refusal is %v", err)
	}
	for _, id := range []string{"none", "fine"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("rule %s refused", id)
				}
			}()
			_ = table.Refuse(id, "x")
		}()
	}
}

// TestSegments matches names against patterns.
func TestSegments(t *testing.T) {
	if v, ok := Segments("projects/p/secrets/s", "projects/*/secrets/*"); !ok || len(v) != 2 || v[1] != "s" {
		t.Errorf("segments are %v, %t", v, ok)
	}
	for _, name := range []string{"", "projects/p/secrets/", "projects/p/cats/s", "projects/p/secrets/s/t"} {
		if v, ok := Segments(name, "projects/*/secrets/*"); ok {
			t.Errorf("%q matched: %v", name, v)
		}
	}
}
