package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// maxIndex bounds an index file, in bytes.
const maxIndex = 16 << 20

// Index is a static file that lists plugins for installation.
type Index struct {
	Plugins []Release `json:"plugins"`
}

// Release is one version of a plugin.
type Release struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Author      string `json:"author,omitzero"`
	Description string `json:"description,omitzero"`
	// Services are the gRPC services that it serves.
	Services []string `json:"services"`
	// Programs are the same program for several systems.
	Programs []Build `json:"programs"`
}

// Build is a program for one system.
type Build struct {
	// OS and Arch are as Go names them: linux, amd64.
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// Address is where the program is: https, file, or relative to the index.
	Address string `json:"address"`
	// SHA256 is the program's, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// ParseIndex reads an index. It is strict: a member that isn't known, a name that can't
// be one, or a checksum that is none makes all of it worthless.
func ParseIndex(data []byte) (Index, error) {
	var x Index
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil {
		return Index{}, fmt.Errorf("read index: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Index{}, errors.New("read index: something follows the object")
	}
	seen := map[string]bool{}
	for i, r := range x.Plugins {
		at := fmt.Sprintf("plugins[%d]", i)
		switch id := r.Name + "@" + r.Version; {
		case !config.IsName(r.Name):
			return Index{}, fmt.Errorf("read index: %s.name: %q can't be a plugin's name", at, r.Name)
		case !config.IsName(r.Version):
			return Index{}, fmt.Errorf("read index: %s.version: %q can't be a version", at, r.Version)
		case seen[id]:
			return Index{}, fmt.Errorf("read index: %s: %s stands there twice", at, id)
		default:
			seen[id] = true
		}
		systems := map[string]bool{}
		for j, b := range r.Programs {
			at := fmt.Sprintf("%s.programs[%d]", at, j)
			if _, err := config.ParseChecksum(b.SHA256); err != nil {
				return Index{}, fmt.Errorf("read index: %s.sha256: %w", at, err)
			}
			if b.OS == "" || b.Arch == "" || b.Address == "" || systems[b.OS+"/"+b.Arch] {
				return Index{}, fmt.Errorf("read index: %s: os, arch or address is missing, or the system stands there twice", at)
			}
			systems[b.OS+"/"+b.Arch] = true
		}
	}
	return x, nil
}

// mostNamed bounds the names of an index that an error lists.
const mostNamed = 20

// find returns a release and its program for a system.
func (x Index) find(name, version, system, arch string) (Release, Build, error) {
	fail := func(remedy, format string, args ...any) error {
		return &sdk.Error{Code: sdk.NotFound, Op: "install plugin " + name, ID: ErrInstall, Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	var names, versions []string
	for _, r := range x.Plugins {
		names = append(names, r.Name)
		if r.Name != name {
			continue
		}
		versions = append(versions, r.Version)
		if r.Version != version {
			continue
		}
		var systems []string
		for _, b := range r.Programs {
			if b.OS == system && b.Arch == arch {
				return r, b, nil
			}
			systems = append(systems, b.OS+"/"+b.Arch)
		}
		return Release{}, Build{}, fail("", "version %s has no program for %s/%s, only for %s", version, system, arch, strings.Join(systems, ", "))
	}
	if len(versions) > 0 {
		return Release{}, Build{}, fail("write NAME@VERSION", "there is no version %q; the index has %s", version, strings.Join(versions, ", "))
	}
	if len(names) == 0 {
		return Release{}, Build{}, fail("name another index", "the index has no plugins")
	}
	slices.Sort(names)
	names = slices.Compact(names)
	remedy := "write one of those names"
	if near := sdk.Nearest(name, names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", len(names)-mostNamed)
	}
	return Release{}, Build{}, fail(remedy, "the index has no plugin of that name, but %s%s", strings.Join(names, ", "), more)
}

// address is one that may be read: a file of this machine, or https.
type address struct{ url url.URL }

// parseAddress reads a path, file:// or https://; anything else is refused, http above
// all.
func parseAddress(s string, from *address) (address, error) {
	if from == nil && !strings.Contains(s, "://") {
		if s == "" {
			return address{}, errors.New("it has no name")
		}
		return address{url.URL{Scheme: "file", Path: filepath.ToSlash(s)}}, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return address{}, err
	}
	if from != nil && u.Scheme == "" {
		r := *u
		u = from.url.ResolveReference(&r)
	}
	switch u.Scheme {
	case "", "file":
		if u.Host != "" && u.Host != "localhost" {
			return address{}, fmt.Errorf("%s names a file of another machine", s)
		}
		if from != nil && from.url.Scheme == "https" {
			return address{}, fmt.Errorf("an index of another machine names a file of this one: %s", s)
		}
		if u.Path == "" {
			return address{}, fmt.Errorf("%q names no file", s)
		}
		return address{url.URL{Scheme: "file", Path: path.Clean(u.Path)}}, nil
	case "https":
		return address{*u}, nil
	}
	return address{}, fmt.Errorf("%s: only https:// and files are read", s)
}

func (a address) String() string { return a.url.Redacted() }
