package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// IDs of errors for windlass explain.
const (
	ErrChecksum  = "plugin.checksum"
	ErrNoProgram = "plugin.no-program"
	ErrPlatform  = "plugin.platform"
	ErrManifest  = "plugin.manifest"
	ErrUntrusted = "plugin.untrusted"
	ErrNotReady  = "plugin.not-ready"
	ErrEnded     = "plugin.ended"
	ErrContract  = "plugin.contract"
	ErrInstall   = "plugin.install"
)

// Explanations returns a row for every error name of this package.
func Explanations() []config.Explanation {
	return []config.Explanation{
		{ID: ErrChecksum, What: "A plugin's program isn't the one that was trusted.",
			Why: "Its SHA-256 differs from the one in windlass.yaml, or from that of its installation, so it isn't started.",
			Do:  "If you have built or updated it yourself, write the new checksum, which windlass plugin check prints. Else find out who has changed it."},
		{ID: ErrNoProgram, What: "A plugin's program isn't there, or can't be run.",
			Why: "The path in windlass.yaml is wrong, the folder of plugins has a folder without a program of its name, or the program may not be executed.",
			Do:  "Correct the path or the program's rights, or install the plugin again: windlass plugin install."},
		{ID: ErrPlatform, What: "A plugin's program isn't for this system.",
			Why: "It was built for another operating system or architecture, which the message names beside this one.",
			Do:  "Build or fetch it for this one; windlass plugin install takes the right one from an index."},
		{ID: ErrManifest, What: "A plugin's plugin.json can't be read.",
			Why: "It stands beside the program, and is JSON with name, version, author, description and iacServices. Without the file a plugin works; with one that is damaged it isn't started.",
			Do:  "Mend or remove the file, or install the plugin again."},
		{ID: ErrUntrusted, What: "Others may change a plugin's program.",
			Why: "It, or its folder, belongs to another user or may be written by others, who could run anything as you.",
			Do:  "Take it over with chown, or run chmod go-w on both."},
		{ID: ErrNotReady, What: "A plugin didn't get ready.",
			Why: "Its process ended, or didn't say within its time where it can be reached. It must be a program made with a plugin SDK.",
			Do:  "Read its last words in the message, and all of them in keeper.log in the state folder; windlass plugin check NAME tries it alone."},
		{ID: ErrEnded, What: "A plugin has ended while it was needed.",
			Why: "Its process crashed or was killed, or no longer answered and was ended. Its runs go on, and are taken up again.",
			Do:  "Call again: it is started by the next call, at once the first time and then ever later. keeper.log in the state folder has its last words."},
		{ID: ErrContract, What: "A plugin doesn't keep the contract.",
			Why: "What it says of itself doesn't fit its name, or what it said before.",
			Do:  "windlass plugin check NAME lists what doesn't fit; its author has to mend it."},
		{ID: ErrInstall, What: "A plugin could not be installed.",
			Why: "What the index, the download or the folder has doesn't fit; the message says what. Nothing was changed: a plugin appears in the folder of plugins whole, or not at all.",
			Do:  "Mend what is named, or name another index, version or folder."},
	}
}

// receiptName is the file that an installation leaves beside the program.
const receiptName = ".installed.json"

// maxReceipt bounds that file, in bytes.
const maxReceipt = 1 << 20

// Receipt is what an installation noted.
type Receipt struct {
	Version string `json:"version"`
	// SHA256 is the program's, in hexadecimal.
	SHA256 string `json:"sha256"`
	// From is the address that it came from.
	From string `json:"from"`
}

func readReceipt(dir string) (Receipt, error) {
	var r Receipt
	path := filepath.Join(dir, receiptName)
	data, err := readBounded(path, maxReceipt)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Expected returns the checksum that a plugin's program must have, in hexadecimal: the
// configuration's, else that of its installation; empty when there is none.
func Expected(p config.Plugin) (string, error) {
	if p.Checksum != "" {
		return p.Checksum, nil
	}
	r, err := readReceipt(filepath.Dir(p.Path))
	if err != nil || r.SHA256 == "" {
		return "", err
	}
	return config.ParseChecksum(r.SHA256)
}

// Sum returns the SHA-256 of a program, in hexadecimal.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // nothing was written
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Verify refuses a program that isn't there, that others may change, or that hasn't the
// checksum that it must have. It returns the one that it has.
func Verify(p config.Plugin) (sum string, err error) {
	_, sum, err = verify(p)
	return sum, err
}

// verify is Verify, and returns the file as it was before it was read, too.
func verify(p config.Plugin) (file fs.FileInfo, sum string, err error) {
	if file, err = inspect(p); err != nil {
		return nil, "", err
	}
	want, err := Expected(p)
	if err != nil {
		return nil, "", unverified(p, sdk.InvalidArgument, ErrChecksum, "install it again", err)
	}
	if sum, err = Sum(p.Path); err != nil {
		return nil, "", unverified(p, sdk.FailedPrecondition, ErrNoProgram, "make it readable", err)
	}
	if want != "" && sum != want {
		return nil, sum, unverified(p, sdk.PermissionDenied, ErrChecksum, "trust it by writing its checksum, or put back the one that was trusted",
			fmt.Errorf("%s has the SHA-256 %s, not %s", p.Path, sum, want))
	}
	return file, sum, nil
}

func unverified(p config.Plugin, code sdk.Code, id, remedy string, err error) error {
	return &sdk.Error{Code: code, Op: "verify plugin " + p.Name, ID: id, Remedy: remedy, Err: err}
}

// inspect refuses a program that isn't there, or that others may change, and doesn't read
// all of it. It returns the file that it has seen.
func inspect(p config.Plugin) (fs.FileInfo, error) {
	fail := func(code sdk.Code, id, remedy string, err error) (fs.FileInfo, error) {
		return nil, unverified(p, code, id, remedy, err)
	}
	info, err := os.Stat(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what, remedy := "no program "+p.Path, "mend plugins."+p.Name+".path in windlass.yaml"
		if p.InFolder {
			what = fmt.Sprintf("the folder %s has no program %s", filepath.Dir(p.Path), filepath.Base(p.Path))
			remedy = "put it there, which windlass plugin install does from an index, or remove the folder"
		}
		return fail(sdk.NotFound, ErrNoProgram, remedy, errors.New(what))
	case err != nil:
		return fail(sdk.FailedPrecondition, ErrNoProgram, "make it readable", err)
	case !info.Mode().IsRegular():
		return fail(sdk.InvalidArgument, ErrNoProgram, "name the program itself", fmt.Errorf("%s is no file", p.Path))
	case info.Mode().Perm()&0o111 == 0 && runtime.GOOS != "windows":
		return fail(sdk.FailedPrecondition, ErrNoProgram, "run chmod +x on it", fmt.Errorf("%s may not be executed", p.Path))
	}
	if why := elsewhere(p.Path); why != "" {
		return fail(sdk.FailedPrecondition, ErrPlatform, "build or fetch it for this system", fmt.Errorf("%s %s", p.Path, why))
	}
	for _, at := range []string{p.Path, filepath.Dir(p.Path)} {
		if why := changeable(at); why != "" {
			return fail(sdk.PermissionDenied, ErrUntrusted, "take it over with chown, or run chmod go-w on it", fmt.Errorf("%s %s", at, why))
		}
	}
	return info, nil
}
