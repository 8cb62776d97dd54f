package azure

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
)

// configStore is a store of App Configuration. Every legal name is one's: the real
// ones are found by DNS.
type configStore struct {
	Settings map[string]*setting // by key and label
}

// setting is a key-value as it is stored and shown. See
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-key-value
type setting struct {
	ETag         string            `json:"etag"`
	Key          string            `json:"key"`
	Label        *string           `json:"label"`
	ContentType  *string           `json:"content_type"`
	Value        *string           `json:"value"`
	LastModified time.Time         `json:"last_modified"`
	Locked       bool              `json:"locked"`
	Tags         map[string]string `json:"tags"`
}

// written is what a request has of a setting.
type written struct {
	Value       *string           `json:"value"`
	ContentType *string           `json:"content_type"`
	Tags        map[string]string `json:"tags"`
	// These are overlooked: they stand in the path, or are read-only.
	Key          any `json:"key"`
	Label        any `json:"label"`
	ETag         any `json:"etag"`
	LastModified any `json:"last_modified"`
	Locked       any `json:"locked"`
}

const (
	configType  = "application/vnd.microsoft.appconfig.kv+json; charset=utf-8"
	configsType = "application/vnd.microsoft.appconfig.kvset+json; charset=utf-8"
	// configPage is how many settings a page has.
	configPage = 100
	// maxSetting bounds a setting with its key, label and the rest, in bytes:
	// https://learn.microsoft.com/en-us/azure/azure-app-configuration/faq#are-there-any-size-limitations-on-keys-and-values-stored-in-app-configuration
	maxSetting = 10_000
)

// configKey is where a setting is kept.
func configKey(key string, label *string) string {
	if label == nil {
		return key
	}
	return key + "\x00" + *label
}

// openStore finds the store that a call is for.
func (s *Server) openStore(c *call) *configStore {
	name := c.path["store"]
	if s.stores[name] == nil {
		s.stores[name] = &configStore{Settings: map[string]*setting{}}
	}
	c.header.Set("Sync-Token", "pocket=pocket;sn="+strconv.FormatInt(c.now.UnixMilli(), 10))
	return s.stores[name]
}

// one reads the key and label that a call is about. No label and the label of a NUL
// are the same.
func one(c *call) (key string, label *string, _ *Error) {
	key = c.path["key"]
	if key == "" || key == "." || key == ".." || strings.Contains(key, "%") {
		return "", nil, refuse(ruleConfigKey, "The key '%s' is invalid.", key)
	}
	if text := c.request.URL.Query().Get("label"); text != "" && text != "\x00" {
		label = &text
	}
	return key, label, nil
}

// condition checks If-Match and If-None-Match. Old is nil where there is none.
func condition(c *call, old *setting) *Error {
	is := func(header string) (set, matches bool) {
		text := c.request.Header.Get(header)
		return text != "", old != nil && (text == "*" || strings.Trim(text, `"`) == old.ETag)
	}
	if set, matches := is("If-Match"); set && !matches {
		return refuse(ruleConfigMatch, "The setting isn't in the state that If-Match names.")
	}
	if set, matches := is("If-None-Match"); set && matches {
		return refuse(ruleConfigMatch, "The setting is in the state that If-None-Match names.")
	}
	return nil
}

func (s *Server) shown(c *call, v *setting) result {
	c.header.Set("Content-Type", configType)
	c.header.Set("ETag", `"`+v.ETag+`"`)
	c.header.Set("Last-Modified", v.LastModified.Format(http.TimeFormat))
	return result{http.StatusOK, v}
}

func (s *Server) getSetting(c *call) (result, *Error) {
	store := s.openStore(c)
	key, label, e := one(c)
	if e != nil {
		return result{}, e
	}
	v := store.Settings[configKey(key, label)]
	if v == nil {
		return result{}, refuse(ruleConfigMissing, "The setting '%s' doesn't exist.", key)
	}
	if text := c.request.Header.Get("If-None-Match"); text != "" && strings.Trim(text, `"`) == v.ETag {
		return result{status: http.StatusNotModified}, nil
	}
	return s.shown(c, v), nil
}

func (s *Server) putSetting(c *call) (result, *Error) {
	store := s.openStore(c)
	key, label, e := one(c)
	if e != nil {
		return result{}, e
	}
	var in written
	decoder := json.NewDecoder(strings.NewReader(string(c.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return result{}, refuse(ruleConfigBody, "The body is invalid: %v.", err)
	}
	at := configKey(key, label)
	old := store.Settings[at]
	if e := condition(c, old); e != nil {
		return result{}, e
	}
	if old != nil && old.Locked {
		return result{}, refuse(ruleConfigLocked, "The setting '%s' is read-only.", key)
	}
	size := len(at)
	for _, p := range []*string{in.Value, in.ContentType} {
		if p != nil {
			size += len(*p)
		}
	}
	for k, v := range in.Tags {
		size += len(k) + len(v)
	}
	if size > maxSetting {
		return result{}, refuse(ruleConfigSize, "The setting '%s' has %d bytes, and may have %d.", key, size, maxSetting)
	}
	v := &setting{ETag: s.o.NewID(), Key: key, Label: label, ContentType: in.ContentType, Value: in.Value, LastModified: c.now.Truncate(time.Second), Tags: in.Tags}
	if v.Tags == nil {
		v.Tags = map[string]string{}
	}
	store.Settings[at] = v
	return s.shown(c, v), nil
}

func (s *Server) deleteSetting(c *call) (result, *Error) {
	store := s.openStore(c)
	key, label, e := one(c)
	if e != nil {
		return result{}, e
	}
	at := configKey(key, label)
	old := store.Settings[at]
	if e := condition(c, old); e != nil {
		return result{}, e
	}
	switch {
	case old == nil:
		return result{status: http.StatusNoContent}, nil
	case old.Locked:
		return result{}, refuse(ruleConfigLocked, "The setting '%s' is read-only.", key)
	}
	delete(store.Settings, at)
	return s.shown(c, old), nil
}

func (s *Server) lockSetting(c *call) (result, *Error) {
	store := s.openStore(c)
	key, label, e := one(c)
	if e != nil {
		return result{}, e
	}
	old := store.Settings[configKey(key, label)]
	if old == nil {
		return result{}, refuse(ruleConfigMissing, "The setting '%s' doesn't exist.", key)
	}
	if e := condition(c, old); e != nil {
		return result{}, e
	}
	v := *old
	v.Locked, v.ETag, v.LastModified = c.request.Method == http.MethodPut, s.o.NewID(), c.now.Truncate(time.Second)
	store.Settings[configKey(key, label)] = &v
	return s.shown(c, &v), nil
}

// listSettings gives the settings whose key and label fit the filters, in order.
func (s *Server) listSettings(c *call) (result, *Error) {
	store := s.openStore(c)
	query := c.request.URL.Query()
	var found []*setting
	for _, v := range store.Settings {
		label := "\x00"
		if v.Label != nil {
			label = *v.Label
		}
		if fitsFilter(query.Get("key"), v.Key) && fitsFilter(query.Get("label"), label) {
			found = append(found, v)
		}
	}
	order := func(v *setting) string { return configKey(v.Key, v.Label) }
	slices.SortFunc(found, func(a, b *setting) int { return cmp.Compare(order(a), order(b)) })
	if text := cmp.Or(query.Get("after"), query.Get("After")); text != "" {
		after, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return result{}, refuse(ruleQuery, "The parameter after '%s' is malformed.", text)
		}
		found = slices.DeleteFunc(found, func(v *setting) bool { return order(v) <= string(after) })
	}
	out := struct {
		Items []*setting `json:"items"`
		Next  string     `json:"@nextLink,omitempty"`
	}{Items: []*setting{}}
	size := configPage
	if s.knobs.PageSize > 0 {
		size = min(size, s.knobs.PageSize)
	}
	if out.Items = append(out.Items, found[:min(size, len(found))]...); len(found) > size {
		next := url.Values{"after": {base64.RawURLEncoding.EncodeToString([]byte(order(found[size-1])))}}
		for _, name := range []string{"key", "label"} {
			if query.Has(name) {
				next[name] = query[name]
			}
		}
		// Microsoft's client for Node.js doesn't find after at the beginning.
		out.Next = "/kv?" + url.Values{"api-version": query["api-version"]}.Encode() + "&" + next.Encode()
		c.header.Set("Link", "<"+out.Next+`>; rel="next"`)
	}
	c.header.Set("Content-Type", configsType)
	return result{http.StatusOK, out}, nil
}

// fitsFilter says whether a text fits a filter: texts with commas between them, each
// of which may end with a star, and has other reserved characters behind a
// backslash. See
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-key-value#filtering
func fitsFilter(filter, text string) bool {
	if filter == "" || filter == "*" {
		return true
	}
	var part strings.Builder
	prefix, escaped := false, false
	try := func() bool {
		ok := part.String() == text || prefix && strings.HasPrefix(text, part.String())
		part.Reset()
		prefix = false
		return ok
	}
	for _, r := range filter {
		switch {
		case escaped:
			part.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			prefix = true
		case r == ',':
			if try() {
				return true
			}
		default:
			part.WriteRune(r)
		}
	}
	return try()
}

// PutSetting writes a setting: a short way for tests.
func (s *Server) PutSetting(store, label, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stores[store] == nil {
		s.stores[store] = &configStore{Settings: map[string]*setting{}}
	}
	s.stores[store].Settings[configKey(key, &label)] = &setting{ETag: s.o.NewID(), Key: key, Label: &label, Value: to.Ptr(value), LastModified: s.o.Now().UTC().Truncate(time.Second), Tags: map[string]string{}}
}

// Settings are those of a label in a store: for tests.
func (s *Server) Settings(store, label string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	if own := s.stores[store]; own != nil {
		for _, v := range own.Settings {
			if v.Label != nil && *v.Label == label && v.Value != nil {
				out[v.Key] = *v.Value
			}
		}
	}
	return out
}
