package pluginhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// maxProgram bounds a program, in bytes.
	maxProgram = 2 << 30
	// fetchTime bounds a download.
	fetchTime = 10 * time.Minute
)

// InstallRequest says what to install, and where.
type InstallRequest struct {
	Name, Version string
	// Index is a path, or an address with file:// or https://.
	Index string
	// Dir is the folder of plugins, which is made.
	Dir string
	// OS and Arch choose the program.
	OS, Arch string
	// Client, when not nil, replaces the client for https.
	Client *http.Client
}

// Installed is what an installation came to.
type Installed struct {
	Release Release
	// Path is the program's, SHA256 its checksum, From the address that it came from.
	Path, SHA256, From string
	// Already: that version was there. Replaced is the version that was there before;
	// empty for none.
	Already  bool
	Replaced string
}

// Install fetches a plugin's program, checks it against the index, and puts it into the
// folder of plugins in one step: whole, or not at all. A folder of that name which no
// installation has made is left alone.
func Install(ctx context.Context, r InstallRequest) (out Installed, err error) {
	fail := func(code sdk.Code, remedy, format string, args ...any) error {
		return &sdk.Error{Code: code, Op: "install plugin " + r.Name, ID: ErrInstall, Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	at, err := parseAddress(r.Index, nil)
	if err != nil {
		return out, fail(sdk.InvalidArgument, "name a file, or an https address", "the index: %w", err)
	}
	data, err := r.read(ctx, at)
	if err != nil {
		return out, fail(sdk.Unavailable, "", "the index: %w", err)
	}
	index, err := ParseIndex(data)
	if err != nil {
		return out, fail(sdk.InvalidArgument, "tell whoever keeps the index", "%s: %w", at, err)
	}
	release, build, err := index.find(r.Name, r.Version, r.OS, r.Arch)
	if err != nil {
		return out, err
	}
	from, err := parseAddress(build.Address, &at)
	if err != nil {
		return out, fail(sdk.InvalidArgument, "tell whoever keeps the index", "%w", err)
	}
	sum, _ := config.ParseChecksum(build.SHA256) // it was parsed with the index
	target := filepath.Join(r.Dir, r.Name)
	out = Installed{Release: release, Path: config.Program(target), SHA256: sum, From: from.String()}
	before, err := readReceipt(target)
	_, missing := os.Lstat(target)
	switch {
	case err != nil:
		return out, fail(sdk.FailedPrecondition, "remove that folder", "%w", err)
	case missing == nil && before.SHA256 == "":
		return out, fail(sdk.AlreadyExists, "remove it, or give it another name", "%s is there, and no installation has made it", target)
	case before.SHA256 == sum && before.Version == r.Version:
		if have, err := Sum(out.Path); err == nil && have == sum {
			out.Already, out.From = true, before.From
			return out, nil
		}
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return out, fail(sdk.FailedPrecondition, "", "%w", err)
	}
	work, err := os.MkdirTemp(r.Dir, ".install-")
	if err != nil {
		return out, fail(sdk.FailedPrecondition, "", "%w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // what is left of it is nothing, or the former version
	fresh := filepath.Join(work, r.Name)
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return out, fail(sdk.FailedPrecondition, "", "%w", err)
	}
	got, err := r.fetch(ctx, from, config.Program(fresh))
	if err != nil {
		return out, fail(sdk.Unavailable, "", "%s: %w", from, err)
	}
	if got != sum {
		return out, fail(sdk.DataLoss, "nothing was installed; tell whoever keeps the index", "%s has the SHA-256 %s, and the index says %s", from, got, sum)
	}
	manifest := map[string]any{"name": release.Name, "version": release.Version, "author": release.Author, "description": release.Description,
		"iacServices": release.Services}
	for name, v := range map[string]any{ManifestName: manifest, receiptName: Receipt{Version: release.Version, SHA256: sum, From: from.String()}} {
		if err := writeJSON(filepath.Join(fresh, name), v); err != nil {
			return out, fail(sdk.FailedPrecondition, "", "%w", err)
		}
	}
	if err := syncDir(fresh); err != nil {
		return out, fail(sdk.FailedPrecondition, "", "%w", err)
	}
	if err := swap(fresh, target); err != nil {
		return out, fail(sdk.FailedPrecondition, "", "%w", err)
	}
	out.Replaced = before.Version
	return out, syncDir(r.Dir)
}

// read reads the index.
func (r InstallRequest) read(ctx context.Context, a address) ([]byte, error) {
	in, err := r.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(in, maxIndex+1))
	if err == nil && len(data) > maxIndex {
		err = fmt.Errorf("it is larger than %d bytes", maxIndex)
	}
	return data, err
}

// fetch writes a program to path, and returns its SHA-256.
func (r InstallRequest) fetch(ctx context.Context, a address, path string) (sum string, err error) {
	in, err := r.open(ctx, a)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()                                     // nothing was written
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) //nolint:gosec // a program
	if err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(in, maxProgram+1))
	if err == nil && n > maxProgram {
		err = fmt.Errorf("it is larger than %d bytes", int64(maxProgram))
	}
	if err == nil {
		err = f.Sync()
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

func (r InstallRequest) open(ctx context.Context, a address) (io.ReadCloser, error) {
	if a.url.Scheme == "file" {
		f, err := os.Open(filepath.FromSlash(a.url.Path))
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%s is no file", a.url.Path), err, f.Close())
		}
		return f, nil
	}
	client := http.Client{}
	if r.Client != nil {
		client = *r.Client
	}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != "https" || len(via) > 5 {
			return fmt.Errorf("it leads to %s", next.URL.Redacted())
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", res.Status), res.Body.Close())
	}
	return res.Body, nil
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// move puts a folder into the place of another in two steps, where one can't do. What
// was there is then where the new one was.
func move(fresh, target string) error {
	old := fresh + ".old"
	if err := os.Rename(target, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, target); err != nil {
		return errors.Join(err, os.Rename(old, target))
	}
	return nil
}
