package aws

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

// partition is the part of AWS that a region belongs to.
// https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
func partition(region string) string {
	for prefix, p := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b",
		"eu-isoe-": "aws-iso-e", "us-isof-": "aws-iso-f", "eusc-": "aws-eusc"} {
		if strings.HasPrefix(region, prefix) {
			return p
		}
	}
	return "aws"
}

// Suffix is the end of the names of the services' hosts in the session's partition.
// https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
func (x *Session) Suffix() string {
	for p, suffix := range map[string]string{"aws-cn": "amazonaws.com.cn", "aws-iso": "c2s.ic.gov", "aws-iso-b": "sc2s.sgov.gov",
		"aws-iso-e": "cloud.adc-e.uk", "aws-iso-f": "csp.hci.ic.gov", "aws-eusc": "amazonaws.eu"} {
		if p == x.Partition {
			return suffix
		}
	}
	return "amazonaws.com"
}

// ARN is the parts of arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE.
type ARN struct{ Partition, Service, Region, Account, Resource string }

// ParseARN reads an ARN; ok is false for anything else.
func ParseARN(s string) (a ARN, ok bool) {
	p := strings.SplitN(s, ":", 6)
	if len(p) != 6 || p[0] != "arn" || p[1] == "" || p[2] == "" || p[5] == "" {
		return ARN{}, false
	}
	return ARN{Partition: p[1], Service: p[2], Region: p[3], Account: p[4], Resource: p[5]}, true
}

// String returns the ARN.
func (a ARN) String() string {
	return strings.Join([]string{"arn", a.Partition, a.Service, a.Region, a.Account, a.Resource}, ":")
}

// ARN returns an ARN of a service where the session leads.
func (x *Session) ARN(service, resource string) ARN {
	return ARN{Partition: x.Partition, Service: service, Region: x.Region, Account: x.Account, Resource: resource}
}

// What a resource's tags may be at most.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Tag.html
const (
	MaxTags     = 50
	MaxTagKey   = 128
	MaxTagValue = 256
)

// CheckTag returns what is wrong with a tag, or nothing.
func CheckTag(key, value string) string {
	switch {
	case key == "":
		return "a tag needs a name"
	case utf8.RuneCountInString(key) > MaxTagKey:
		return fmt.Sprintf("a tag's name has at most %d characters", MaxTagKey)
	case utf8.RuneCountInString(value) > MaxTagValue:
		return fmt.Sprintf("a tag's value has at most %d characters", MaxTagValue)
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return "names that start with aws: are AWS's own"
	}
	for _, s := range []string{key, value} {
		if r, bad := firstIllegal(s); bad {
			return fmt.Sprintf("%q may not stand in a tag; letters, digits, spaces and _ . : / = + - @ may", r)
		}
	}
	return ""
}

func firstIllegal(s string) (rune, bool) {
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ' ' && !strings.ContainsRune("_.:/=+-@", r) {
			return r, true
		}
	}
	return 0, false
}

// CheckUserTag returns what is wrong with a tag that a user chose, or nothing.
func CheckUserTag(k, v string) string {
	if strings.HasPrefix(k, sdk.LabelPrefix) {
		return "names that start with " + sdk.LabelPrefix + " are ours"
	}
	return CheckTag(k, v)
}

// TagValue returns a legal value of a tag for a text; different texts have
// different values.
func TagValue(s string) string {
	if !ascii(s) && CheckTag("x", s) == "" {
		return s
	}
	// Every other text's value is in ASCII, so none is one of those above.
	return sdk.NameRule{Max: MaxTagValue, Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(" _.:/=+-@", c) >= 0
	}}.Fit(s)
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
