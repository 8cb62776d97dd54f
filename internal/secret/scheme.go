package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// The schemes that are resolved here.
const (
	SchemeEnv  = "env"
	SchemeFile = "file"
)

// MaxBytes bounds the size of a secret.
const MaxBytes = 1 << 20

// Local returns the schemes that are resolved on the submitter's machine. The
// lookup reads its variables; relative files start at dir.
func Local(lookup func(name string) (string, bool), dir string) map[string]Scheme {
	return map[string]Scheme{SchemeEnv: Env(lookup), SchemeFile: File(dir)}
}

// Elsewhere returns the schemes of a process that isn't the submitter's: a
// reference that was not handed over is FailedPrecondition.
func Elsewhere() map[string]Scheme {
	gone := func(context.Context, sdk.ParsedSecretRef) (sdk.SecretValue, error) {
		return sdk.SecretValue{}, problem(sdk.FailedPrecondition, ErrNotHeld, "start the job again from where the secret is, with windlass rerun",
			"the value isn't here any more")
	}
	return map[string]Scheme{SchemeEnv: gone, SchemeFile: gone}
}

// Env resolves secret://env/NAME from variables. One that is unset is
// NotFound; one that is set to nothing is FailedPrecondition, since an empty
// secret is as good as always a mistake.
func Env(lookup func(name string) (string, bool)) Scheme {
	return func(_ context.Context, ref sdk.ParsedSecretRef) (sdk.SecretValue, error) {
		if err := plainRef(ref); err != nil {
			return sdk.SecretValue{}, err
		}
		v, ok := lookup(ref.Path)
		switch {
		case !ok:
			return sdk.SecretValue{}, problem(sdk.NotFound, ErrNotFound, "export it in the shell that runs windlass", "the variable %s isn't set", ref.Path)
		case v == "":
			return sdk.SecretValue{}, problem(sdk.FailedPrecondition, ErrUnusable, "give it a value", "the variable %s is empty", ref.Path)
		case len(v) > MaxBytes:
			return sdk.SecretValue{}, tooLarge()
		}
		return sdk.NewSecretValue([]byte(v)), nil
	}
}

// File resolves secret://file/PATH, where PATH starts at dir, and
// secret://file//PATH, which is absolute. The value is the file's bytes as they
// are, a newline at the end included. A file that isn't there is NotFound; an
// empty one, one over MaxBytes, and what is no regular file is
// FailedPrecondition.
func File(dir string) Scheme {
	return func(ctx context.Context, ref sdk.ParsedSecretRef) (sdk.SecretValue, error) {
		if err := plainRef(ref); err != nil {
			return sdk.SecretValue{}, err
		}
		if ctx.Err() != nil {
			return sdk.SecretValue{}, context.Cause(ctx)
		}
		path := filepath.FromSlash(ref.Path)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		b, err := readFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			remedy := "check the path"
			if abs := "/" + ref.Path; filepath.IsAbs(abs) && !filepath.IsAbs(filepath.FromSlash(ref.Path)) {
				if _, err := os.Stat(abs); err == nil {
					remedy = "write secret://file/" + abs + " for the absolute path"
				}
			}
			return sdk.SecretValue{}, problem(sdk.NotFound, ErrNotFound, remedy, "the file %s doesn't exist", path)
		case err != nil:
			return sdk.SecretValue{}, problem(sdk.FailedPrecondition, ErrUnusable, "", "the file %s %w", path, err)
		}
		return sdk.NewSecretValue(b), nil
	}
}

func readFile(path string) ([]byte, error) {
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, bare(err)
	case len(b) == 0:
		return nil, errors.New("is empty")
	case len(b) > MaxBytes:
		return nil, errTooLarge
	}
	return b, nil
}

var errTooLarge = fmt.Errorf("is larger than %d bytes", MaxBytes)

func tooLarge() error {
	return problem(sdk.FailedPrecondition, ErrUnusable, "", "the value %w", errTooLarge)
}

// bare drops the path, which the caller names.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("can't be read: %w", pe.Err)
	}
	return fmt.Errorf("can't be read: %w", err)
}

// plainRef refuses a key or version, which neither scheme has.
func plainRef(ref sdk.ParsedSecretRef) error {
	switch {
	case ref.Key != "":
		return problem(sdk.InvalidArgument, ErrUnusable, "leave #"+ref.Key+" out", "the scheme %s has no keys", ref.Scheme)
	case ref.Version != "":
		return problem(sdk.InvalidArgument, ErrUnusable, "leave ?version= out", "the scheme %s has no versions", ref.Scheme)
	}
	return nil
}
