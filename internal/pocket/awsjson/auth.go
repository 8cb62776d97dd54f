package awsjson

import (
	"net/http"
	"strings"
	"time"
)

// Scope is what a signature says of its maker: whose key it is, and for which
// region and service it holds.
type Scope struct {
	AccessKey, Region, Service string
}

// clockSkew is how far a request's date may lie from the service's time:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
const clockSkew = 5 * time.Minute

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// made says whether a text isn't empty and has no other characters than some.
func made(s, of string) bool { return s != "" && strings.Trim(s, of) == "" }

// ReadSignature checks that a request bears a signature of version 4 in the
// right form and within its time (any time, when now is zero), and returns its
// scope. The signature itself
// isn't verified: a pocket cloud knows no secrets of its callers. See
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func ReadSignature(r *http.Request, now time.Time) (Scope, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return Scope{}, Errorf("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	if !ok {
		return Scope{}, Errorf("IncompleteSignatureException", "Unsupported AWS 'algorithm' in the Authorization header.")
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	for _, need := range []string{"Credential", "Signature", "SignedHeaders"} {
		if parts[need] == "" {
			return Scope{}, Errorf("IncompleteSignatureException", "Authorization header requires '%s' parameter.", need)
		}
	}
	c := strings.Split(parts["Credential"], "/")
	if len(c) != 5 || len(c[0]) < 3 || len(c[0]) > 128 || !made(c[0], lower+strings.ToUpper(lower)+digits+"_-") || len(c[1]) != 8 ||
		!made(c[2], lower+digits+"-") || !made(c[3], lower+digits+"-") || c[4] != "aws4_request" {
		return Scope{}, Errorf("IncompleteSignatureException", "Credential must have the form KEY/DATE/REGION/SERVICE/aws4_request.")
	}
	if len(parts["Signature"]) != 64 || !made(parts["Signature"], digits+"abcdef") {
		return Scope{}, Errorf("IncompleteSignatureException", "Signature must be 64 hexadecimal digits.")
	}
	signed := strings.Split(parts["SignedHeaders"], ";")
	for _, need := range []string{"host", "x-amz-date"} {
		if !contains(signed, need) {
			return Scope{}, Errorf("InvalidSignatureException", "'%s' must be a 'SignedHeader' in the AWS Authorization.", need)
		}
	}
	const stamp = "20060102T150405Z"
	date, err := time.Parse(stamp, r.Header.Get("X-Amz-Date"))
	if err != nil {
		return Scope{}, Errorf("IncompleteSignatureException", "Date must be in ISO-8601 'basic format'. Got '%s'.", r.Header.Get("X-Amz-Date"))
	}
	if date.Format("20060102") != c[1] {
		return Scope{}, Errorf("InvalidSignatureException", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s'.", c[1], date.Format("20060102"))
	}
	scope := Scope{AccessKey: c[0], Region: c[2], Service: c[3]}
	if now.IsZero() {
		return scope, nil
	}
	if now.Sub(date) > clockSkew {
		return Scope{}, Errorf("InvalidSignatureException", "Signature expired: %s is now earlier than %s (%s - 5 min.)",
			date.Format(stamp), now.Add(-clockSkew).UTC().Format(stamp), now.UTC().Format(stamp))
	}
	if date.Sub(now) > clockSkew {
		return Scope{}, Errorf("InvalidSignatureException", "Signature not yet current: %s is still later than %s (%s + 5 min.)",
			date.Format(stamp), now.Add(clockSkew).UTC().Format(stamp), now.UTC().Format(stamp))
	}
	return scope, nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}
