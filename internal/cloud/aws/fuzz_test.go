package aws

import "testing"

// FuzzParseARN: what is read as an ARN is written as it was.
func FuzzParseARN(f *testing.F) {
	f.Add("arn:aws:ecs:eu-west-1:123456789012:task/jobs/0123")
	f.Add("arn:aws:iam::123456789012:role/x")
	f.Fuzz(func(t *testing.T, s string) {
		if a, ok := ParseARN(s); ok && a.String() != s {
			t.Errorf("%q becomes %q", s, a.String())
		}
	})
}

// FuzzTagValue: any text becomes a legal value of a tag.
func FuzzTagValue(f *testing.F) {
	f.Add("nightly job")
	f.Add("é#")
	f.Fuzz(func(t *testing.T, s string) {
		if v := TagValue(s); v == "" || CheckTag("x", v) != "" {
			t.Errorf("%q becomes %q: %s", s, v, CheckTag("x", v))
		}
	})
}
